// SPDX-License-Identifier: Apache-2.0
// opabi._core: the core as Python sees it. python/opabi/kernel.py is its one user-facing caller.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "core/check.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/library.h"
#include "python/buffers.h"
#include "python/calls.h"
#include "python/descriptor.h"
#include "python/eager.h"
#include "python/errors.h"
#include "python/program.h"
#include "python/text.h"

namespace py = pybind11;

namespace opabi {
namespace {

py::object Text(const char *text) { return py::str(text ? text : ""); }

py::list Ports(const std::vector<Port> &ports) {
  py::list list;
  for (const Port &port : ports) {
    const bool any_rank = port.ellipsis_at() >= 0;
    list.append(py::dict(
        py::arg("name") = port.name, py::arg("text") = port.text, py::arg("layout") = port.layout,
        py::arg("dtype") = port.dtype == OPABI_DTYPE_ANY
                               ? py::object(py::none())
                               : py::object(py::str(DtypeName(port.dtype))),
        py::arg("ndim") =
            any_rank ? py::object(py::none()) : py::object(py::int_(port.dims.size())),
        py::arg("open_dtype") = port.open_dtype, py::arg("bounded") = port.bounded()));
  }
  return list;
}

py::dict SignatureDict(const Signature &signature) {
  return py::dict(py::arg("inputs") = Ports(signature.inputs()),
                  py::arg("outputs") = Ports(signature.outputs()),
                  py::arg("needs_setup") = signature.needs_setup(),
                  py::arg("bounded") = signature.bounded());
}

py::list ArgumentDicts(const opabi_kernel &kernel) {
  py::list list;
  for (int32_t a = 0; a < kernel.n_args; a++) {
    const opabi_arg &arg = kernel.args[a];
    py::dict dict(py::arg("name") = arg.name, py::arg("doc") = Text(arg.doc));
    dict["dtype"] = arg.dtype == OPABI_DTYPE_ANY ? py::object(py::none())
                                                 : py::object(py::str(DtypeName(arg.dtype)));
    dict["ndim"] =
        arg.ndim == OPABI_NDIM_ANY ? py::object(py::none()) : py::object(py::int_(arg.ndim));
    if (const opabi_tensor *value = arg.default_value) {
      PortInfo info;
      info.dtype = value->dtype;
      info.ndim = value->ndim;
      const py::object array = NewArray(info, value->shape);
      Buffer buffer;
      buffer.Write(array, {ValuePlace::kDefault, nullptr, a, -1, arg.name}, info, value->shape);
      if (buffer.bytes())
        std::copy_n(static_cast<const char *>(value->data), buffer.bytes(),
                    static_cast<char *>(buffer.data()));
      dict["default"] = array;
    }
    list.append(dict);
  }
  return list;
}

py::dict LibraryDict(const std::string &path) {
  const opabi_library library = Normalize(*OpenLibrary(path));
  py::list kernels;
  for (int64_t i = 0; i < library.n_kernels; i++) {
    const opabi_kernel kernel = Normalize(*library.kernels[i]);
    kernels.append(py::dict(py::arg("name") = kernel.name, py::arg("doc") = Text(kernel.doc),
                            py::arg("signature") = kernel.signature,
                            py::arg("device") = kernel.device_type));
  }
  return py::dict(py::arg("name") = library.name, py::arg("version") = Text(library.version),
                  py::arg("doc") = Text(library.doc), py::arg("kernels") = kernels);
}

/// What another host in this process needs to use the kernel: a descriptor that it does not release, an
/// owner, and the function that ends its hold.
struct Held {
  std::shared_ptr<Kernel> kernel;
  opabi_kernel descriptor;
  static void Drop(void *owner) { delete static_cast<Held *>(owner); }
};

py::tuple Hold(const PyKernel &self) {
  auto *held = new Held{self.kernel(), self.kernel()->descriptor()};
  held->descriptor.release = nullptr;
  return py::make_tuple(reinterpret_cast<uintptr_t>(&held->descriptor),
                        reinterpret_cast<uintptr_t>(held),
                        reinterpret_cast<uintptr_t>(&Held::Drop));
}

/// (dtype, shape, bytes) of a contiguous tensor.
py::tuple Parts(const opabi_tensor &tensor) {
  py::tuple shape(tensor.ndim);
  for (int32_t d = 0; d < tensor.ndim; d++) shape[d] = tensor.shape[d];
  const int64_t bytes = opabi_numel(&tensor) * DtypeSize(tensor.dtype);
  return py::make_tuple(
      DtypeName(tensor.dtype), shape,
      py::bytes(static_cast<const char *>(tensor.data), static_cast<size_t>(bytes)));
}

/// Throws where a call with so many inputs and arguments of these names would.
void CheckCall(const PyKernel &self, int64_t n_inputs, const py::list &names) {
  self.kernel()->CheckInputCount(n_inputs);
  std::vector<std::string> given;
  for (const py::handle name : names) given.push_back(Shown(name));
  Arguments(*self.kernel()).CheckNames(given);
}

/// A constant argument as the kernel will see it. Throws where a call would.
py::tuple NormalizeArgument(const PyKernel &self, const std::string &name, py::handle value) {
  Arguments arguments(*self.kernel());
  const int arg = arguments.Find(name);
  Buffer buffer;
  buffer.ReadValue(value, {ValuePlace::kArgument, self.kernel().get(), arg, -1, ""});
  arguments.SetConstant(arg, buffer.tensor(), buffer.origin());
  return Parts(arguments.constant(arg));
}

/// The same for an input that all samples share.
py::tuple NormalizeInput(const PyKernel &self, int port, py::handle value) {
  Buffer buffer;
  buffer.Read(value, {ValuePlace::kInput, self.kernel().get(), port, -1, ""}, false);
  return Parts(buffer.tensor());
}

}  // namespace
}  // namespace opabi

PYBIND11_MODULE(_core, m) {
  using namespace opabi;
  RegisterErrors();

  py::class_<PyKernel>(m, "Kernel")
      .def(py::init([](const py::dict &fields) {
        auto descriptor = std::make_shared<OwnedDescriptor>(fields);
        return new PyKernel(AdoptDescriptor(descriptor), descriptor);
      }))
      .def_static("from_library",
                  [](const std::string &path, const std::string &name) {
                    return new PyKernel(OpenKernel(path, name));
                  })
      .def_property_readonly("name",
                             [](const PyKernel &k) { return k.kernel()->descriptor().name; })
      .def_property_readonly("doc",
                             [](const PyKernel &k) { return Text(k.kernel()->descriptor().doc); })
      .def_property_readonly("signature",
                             [](const PyKernel &k) { return k.kernel()->signature().text(); })
      .def_property_readonly(
          "ports", [](const PyKernel &k) { return SignatureDict(k.kernel()->signature()); })
      .def_property_readonly(
          "arguments", [](const PyKernel &k) { return ArgumentDicts(k.kernel()->descriptor()); })
      .def_property_readonly("traits",
                             [](const PyKernel &k) { return k.kernel()->descriptor().traits; })
      .def_property_readonly("critical",
                             [](const PyKernel &k) { return k.kernel()->descriptor().critical; })
      .def_property_readonly("device",
                             [](const PyKernel &k) { return k.kernel()->descriptor().device_type; })
      .def_property_readonly("stateful",
                             [](const PyKernel &k) { return k.kernel()->has_instance(); })
      .def("hold", &Hold)
      .def("check_call", &CheckCall)
      .def("normalize_argument", &NormalizeArgument)
      .def("normalize_input", &NormalizeInput);

  AddCalls(m);
  AddCudaProgram(m);
  m.def("raise_after_call", &RaiseAfterCall, py::arg("exception"));
  m.def("library", &LibraryDict, py::arg("path"));
  m.def("parse_signature",
        [](const std::string &text) { return SignatureDict(Signature::Parse(text)); });
  m.def("broken", [](uintptr_t address) {
    py::list list;
    for (const Broken &broken : AllBroken(reinterpret_cast<const opabi_kernel *>(address)))
      list.append(py::make_tuple(broken.rule, broken.message));
    return list;
  });
  m.attr("ABI_VERSION") = py::make_tuple(OPABI_MAJOR, OPABI_MINOR);
}
