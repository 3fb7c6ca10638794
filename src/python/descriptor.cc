// SPDX-License-Identifier: Apache-2.0
#include "python/descriptor.h"

#include <cstring>
#include <mutex>

#include "core/arguments.h"
#include "core/dtype.h"
#include "core/error.h"
#include "python/buffers.h"
#include "python/errors.h"
#include "python/text.h"

namespace py = pybind11;

namespace opabi {
namespace {

/// Descriptors whose last user was a thread without Python's lock. Python's main thread drops them when
/// it next can; at interpreter exit they are left to the process.
class Graveyard {
 public:
  static void Bury(std::shared_ptr<OwnedDescriptor> descriptor) {
    std::lock_guard<std::mutex> lock(mutex());
    dead().push_back(std::move(descriptor));
    Py_AddPendingCall(&Clear, nullptr);  // a full queue is no loss: the next burial clears them all
  }

 private:
  static int Clear(void *) {
    std::vector<std::shared_ptr<OwnedDescriptor>> gone;
    std::lock_guard<std::mutex> lock(mutex());
    gone.swap(dead());
    return 0;
  }
  static std::mutex &mutex() {
    static auto *mutex = new std::mutex;
    return *mutex;
  }
  static std::vector<std::shared_ptr<OwnedDescriptor>> &dead() {
    static auto *dead = new std::vector<std::shared_ptr<OwnedDescriptor>>;
    return *dead;
  }
};

template <typename Function>
Function Address(const py::dict &fields, const char *name) {
  return reinterpret_cast<Function>(AddressOf(fields[name], std::string("the kernel's ") + name));
}

py::tuple TensorTypes(int32_t n, const uint32_t *dtypes, const int32_t *ndims) {
  const py::object make = py::module_::import("opabi.kernel").attr("TensorType");
  py::tuple types(n);
  for (int32_t i = 0; i < n; i++) types[i] = make(DtypeName(dtypes[i]), ndims[i]);
  return types;
}

}  // namespace

OwnedDescriptor::OwnedDescriptor(const py::dict &fields) : keep_(fields["keep"]) {
  kernel_.magic = OPABI_MAGIC;
  kernel_.struct_size = sizeof kernel_;
  kernel_.abi_min = OPABI_VERSION(1, 0);
  kernel_.name = Keep(TextOf(fields["name"], "the kernel's name"));
  kernel_.doc = Keep(TextOf(fields["doc"], "the kernel's doc"));
  kernel_.signature = Keep(TextOf(fields["signature"], "the kernel's signature"));
  kernel_.traits = fields["traits"].cast<uint32_t>();
  kernel_.critical = fields["critical"].cast<uint32_t>();
  kernel_.device_type = fields["device"].cast<int32_t>();
  kernel_.user_data = Address<void *>(fields, "user_data");
  kernel_.create = Address<decltype(kernel_.create)>(fields, "create");
  kernel_.destroy = Address<decltype(kernel_.destroy)>(fields, "destroy");
  kernel_.setup = Address<decltype(kernel_.setup)>(fields, "setup");
  kernel_.run = Address<decltype(kernel_.run)>(fields, "run");
  kernel_.release = Address<decltype(kernel_.release)>(fields, "release");
  kernel_.save = Address<decltype(kernel_.save)>(fields, "save");
  kernel_.restore = Address<decltype(kernel_.restore)>(fields, "restore");
  specialize_ = fields["specialize"];
  if (PyIndex_Check(specialize_.ptr())) {
    kernel_.specialize = Address<decltype(kernel_.specialize)>(fields, "specialize");
  } else if (!specialize_.is_none()) {
    if (kernel_.user_data || kernel_.create) {
      throw Error(Kind::kValue, "",
                  "a kernel with a Python specialize has no user_data and no create of its own.");
    }
    kernel_.specialize = &OwnedDescriptor::Specialize;
    kernel_.user_data = this;
  }
  const auto arguments = fields["arguments"].cast<py::sequence>();
  arguments_.reserve(arguments.size());
  for (const py::handle argument : arguments) AddArgument(argument);
  kernel_.n_args = static_cast<int32_t>(arguments_.size());
  kernel_.args = arguments_.data();
}

const char *OwnedDescriptor::Keep(const std::string &text) {
  texts_.push_back(text);
  return texts_.back().c_str();
}

void OwnedDescriptor::AddArgument(py::handle argument) {
  opabi_arg declared{};
  declared.name = Keep(TextOf(argument.attr("name"), "an argument's name"));
  declared.dtype = OPABI_DTYPE_ANY;
  declared.ndim = OPABI_NDIM_ANY;
  const std::string what = "argument '" + std::string(declared.name) + "'";
  declared.doc = Keep(TextOf(argument.attr("doc"), what + ", doc"));
  const py::object dtype = argument.attr("dtype"), ndim = argument.attr("ndim"),
                   value = argument.attr("default");
  if (!dtype.is_none()) {
    const std::string text = TextOf(dtype, what + ", dtype");
    declared.dtype = DtypeFromName(text);
    if (declared.dtype == OPABI_DTYPE_ANY) {
      throw Error(Kind::kValue, "OPABI-D-010",
                  what + ": '" + text + "' is no element type of opabi.");
    }
  }
  if (!ndim.is_none()) {
    declared.ndim = static_cast<int32_t>(IntegerOf(ndim, what + ", ndim", 0, OPABI_MAX_NDIM));
  }
  if (!value.is(py::module_::import("opabi.kernel").attr("MISSING"))) {
    Buffer buffer;
    buffer.ReadValue(value, {ValuePlace::kDefault, nullptr, 0, -1, declared.name});
    defaults_.push_back(
        ConvertValue(declared, buffer.tensor(), buffer.origin(), what + ", default"));
    declared.default_value = &defaults_.back()->tensor;
  }
  arguments_.push_back(declared);
}

int32_t OwnedDescriptor::Specialize(const opabi_specialize *specialize) {
  if (!Py_IsInitialized()) {
    return OPABI_FAIL(specialize, OPABI_UNSET, OPABI_ERROR_INTERNAL,
                      "Python has ended: the kernel can no longer be compiled");
  }
  py::gil_scoped_acquire lock;
  auto *self = static_cast<OwnedDescriptor *>(specialize->user_data);
  try {
    return self->CallSpecialize(specialize);
  } catch (py::error_already_set &error) {
    self->error_ = error.value();
    const auto [status, text] = StatusOfPythonError(error);
    return OPABI_FAIL(specialize, OPABI_UNSET, status, text.c_str());
  } catch (const Error &error) {
    return OPABI_FAIL(specialize, OPABI_UNSET, OPABI_ERROR_TYPE, error.what());
  } catch (const std::exception &error) {
    return OPABI_FAIL(specialize, OPABI_UNSET, OPABI_ERROR_INTERNAL, error.what());
  }
}

int32_t OwnedDescriptor::CallSpecialize(const opabi_specialize *s) {
  py::tuple call = py::make_tuple(TensorTypes(s->n_in, s->in_dtype, s->in_ndim),
                                  TensorTypes(s->n_args, s->arg_dtype, s->arg_ndim));
  if (s->device_type == OPABI_CUDA) call = py::tuple(call + py::make_tuple(s->device_id));
  const py::object functions = specialize_(*call);
  *s->out_run = reinterpret_cast<opabi_run_fn>(
      AddressOf(functions.attr("run"), "run of what specialize returned"));
  *s->out_setup = reinterpret_cast<opabi_setup_fn>(
      AddressOf(functions.attr("setup"), "setup of what specialize returned"));
  *s->out_user_data = reinterpret_cast<void *>(
      AddressOf(functions.attr("user_data"), "user_data of what specialize returned"));
  specialized_.push_back(functions);
  return OPABI_OK;
}

std::shared_ptr<Kernel> AdoptDescriptor(std::shared_ptr<OwnedDescriptor> descriptor) {
  const opabi_kernel *kernel = descriptor->get();
  return Kernel::Adopt(kernel, [descriptor]() mutable {
    if (Py_IsInitialized() && PyGILState_Check()) {
      descriptor.reset();
    } else {
      Graveyard::Bury(std::move(descriptor));
    }
  });
}

}  // namespace opabi
