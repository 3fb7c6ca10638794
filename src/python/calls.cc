// SPDX-License-Identifier: Apache-2.0
#include "python/calls.h"

#include <pybind11/numpy.h>

#include "core/error.h"
#include "python/eager.h"
#include "python/errors.h"
#include "python/text.h"

namespace py = pybind11;

namespace opabi {
namespace {

constexpr char kDirect[] = "opabi direct";  // the name of capsules with a PyKernel

PyKernel *KernelOf(PyObject *object) {
  if (PyCapsule_IsValid(object, kDirect))
    return static_cast<PyKernel *>(PyCapsule_GetPointer(object, kDirect));
  return py::cast<PyKernel *>(py::handle(object));
}

/// Runs `body(kernel)` and turns C++ exceptions into Python's.
template <typename Body>
PyObject *Guarded(PyObject *object, const Body &body) {
  PyKernel *kernel = nullptr;
  try {
    kernel = KernelOf(object);
    return body(*kernel).release().ptr();
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const Error &error) {
    SetPythonError(error, kernel->TakeError());
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

bool IsTrue(PyObject *object) {
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

/// call(kernel, inputs, arguments, out, checked, num_threads)
PyObject *Call(PyObject *, PyObject *const *args, Py_ssize_t n) {
  if (n != 6 || !PyTuple_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "call(kernel, inputs, arguments, out, checked, num_threads)");
    return nullptr;
  }
  return Guarded(args[0], [&](PyKernel &kernel) {
    const auto num_threads = static_cast<int>(IntegerOf(args[5], "num_threads", 1, 1024));
    const EagerOptions options{IsTrue(args[4]), num_threads};
    return kernel.Call(py::reinterpret_borrow<py::tuple>(args[1]), args[2], args[3], options);
  });
}

/// call_cuda(kernel, inputs, arguments, out, checked, device_id, stream, new_array, first): `first` is an
/// array of the library whose stream it is.
PyObject *CallCuda(PyObject *, PyObject *const *args, Py_ssize_t n) {
  if (n != 9 || !PyTuple_Check(args[1])) {
    PyErr_SetString(
        PyExc_TypeError,
        "call_cuda(kernel, inputs, arguments, out, checked, device_id, stream, new_array, first)");
    return nullptr;
  }
  return Guarded(args[0], [&](PyKernel &kernel) {
    const EagerOptions options{IsTrue(args[4]), 1, static_cast<int32_t>(PyLong_AsLong(args[5]))};
    const EagerStream stream{PyLong_AsVoidPtr(args[6]), py::reinterpret_borrow<py::object>(args[7]),
                             Py_TYPE(args[8])};
    return kernel.Call(py::reinterpret_borrow<py::tuple>(args[1]), args[2], args[3], options,
                       stream);
  });
}

/// Arrays and numbers are no nodes of a pipeline and lie on no GPU.
bool IsPlain(PyObject *value) {
  return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) ||
         py::isinstance<py::array>(value);
}

bool IsName(PyObject *name, const char *text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

/// Whether Kernel.__call__ would do nothing but hand the call on. Sets `out`.
bool IsPlainCall(PyObject *inputs, PyObject *keywords, PyObject **out) {
  const Py_ssize_t n = PyTuple_GET_SIZE(inputs);
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!IsPlain(PyTuple_GET_ITEM(inputs, i))) return false;
  }
  Py_ssize_t at = 0;
  PyObject *name, *value;
  while (keywords && PyDict_Next(keywords, &at, &name, &value)) {
    if (!PyUnicode_Check(name) || IsName(name, "checked") || IsName(name, "num_threads"))
      return false;
    if (IsName(name, "out")) {
      *out = value;
    } else if (!IsPlain(value)) {
      return false;
    }
  }
  return n > 0;  // a kernel without inputs may stand in a pipeline
}

ternaryfunc general_call = nullptr;  // Kernel.__call__

/// The slot tp_call of opabi.Kernel. Most of a small call's time would go to Kernel.__call__, which looks for
/// what is seldom there.
PyObject *CallSlot(PyObject *self, PyObject *inputs, PyObject *keywords) {
  static PyObject *const direct = PyUnicode_InternFromString("_direct");
  PyObject *out = nullptr;
  if (!IsPlainCall(inputs, keywords, &out)) return general_call(self, inputs, keywords);
  const py::object capsule = py::reinterpret_steal<py::object>(PyObject_GetAttr(self, direct));
  if (!capsule) return nullptr;
  if (capsule.is_none()) return general_call(self, inputs, keywords);
  return Guarded(capsule.ptr(), [&](PyKernel &kernel) {
    return kernel.Call(py::reinterpret_borrow<py::tuple>(inputs), keywords, out, {});
  });
}

/// set_call_slot(type): instances of the type have an attribute _direct, which is None or what `direct` gave
/// for a kernel that they hold.
PyObject *SetCallSlot(PyObject *, PyObject *type) {
  auto *slots = reinterpret_cast<PyTypeObject *>(type);
  general_call = slots->tp_call;
  slots->tp_call = &CallSlot;
  PyType_Modified(slots);
  Py_RETURN_NONE;
}

template <typename Function>
PyCFunction AsMethod(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef kMethods[] = {{"call", AsMethod(&Call), METH_FASTCALL, nullptr},
                          {"call_cuda", AsMethod(&CallCuda), METH_FASTCALL, nullptr},
                          {"set_call_slot", AsMethod(&SetCallSlot), METH_O, nullptr},
                          {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddCalls(py::module_ &module) {
  // A capsule is opened sooner than a pybind11 object, whose type is looked up by name.
  module.def("direct", [](PyKernel &kernel) { return py::capsule(&kernel, kDirect); });
  if (PyModule_AddFunctions(module.ptr(), kMethods) != 0) throw py::error_already_set();
}

}  // namespace opabi
