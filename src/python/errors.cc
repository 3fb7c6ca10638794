// SPDX-License-Identifier: Apache-2.0
#include "python/errors.h"

#include "opabi/opabi.h"
#include "python/text.h"

namespace py = pybind11;

namespace opabi {
namespace {

const char *ClassName(Kind kind) {
  switch (kind) {
    case Kind::kValue: return "OpabiValueError";
    case Kind::kType: return "OpabiTypeError";
    case Kind::kIndex: return "OpabiIndexError";
    case Kind::kMemory: return "OpabiMemoryError";
    default: return "OpabiRuntimeError";
  }
}

thread_local PyObject *raise_after_call = nullptr;

}  // namespace

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr pending) {
    try {
      if (pending) std::rethrow_exception(pending);
    } catch (const Error &error) {
      SetPythonError(error, py::object());
    }
  });
}

void RaiseAfterCall(py::object exception) {
  Py_XDECREF(raise_after_call);
  raise_after_call = exception.release().ptr();
}

void SetPythonError(const Error &error, py::object cause) {
  if (raise_after_call) {
    const auto pending =
        py::reinterpret_steal<py::object>(std::exchange(raise_after_call, nullptr));
    PyErr_SetObject(py::type::handle_of(pending).ptr(), pending.ptr());
    return;
  }
  const py::object type = py::module_::import("opabi.errors").attr(ClassName(error.kind()));
  const py::object value = type(error.what(), error.rule());
  if (cause) PyException_SetCause(value.ptr(), cause.release().ptr());
  PyErr_SetObject(type.ptr(), value.ptr());
}

std::pair<int32_t, std::string> StatusOfPythonError(py::error_already_set &error) {
  int32_t status = OPABI_ERROR_INTERNAL;
  if (error.matches(PyExc_ValueError)) status = OPABI_ERROR_VALUE;
  if (error.matches(PyExc_TypeError)) status = OPABI_ERROR_TYPE;
  if (error.matches(PyExc_IndexError)) status = OPABI_ERROR_INDEX;
  if (error.matches(PyExc_MemoryError)) status = OPABI_ERROR_OUT_OF_MEMORY;
  if (!error.matches(PyExc_Exception)) RaiseAfterCall(error.value());
  const std::string type = Shown(error.type().attr("__name__")), text = Shown(error.value());
  return {status, text.empty() ? type : type + ": " + text};
}

}  // namespace opabi
