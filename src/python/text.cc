// SPDX-License-Identifier: Apache-2.0
#include "python/text.h"

#include <cstring>

#include "core/error.h"

namespace py = pybind11;

namespace opabi {
namespace {

[[noreturn]] void Throw(Kind kind, const std::string &what, const std::string &expected,
                        const std::string &found) {
  throw Error(kind, "", what + ": expected " + expected + ", found " + found + ".");
}

std::string TypeName(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

/// The object as a Python int: floats and strings are none.
py::object Index(py::handle object, const std::string &what, const std::string &expected) {
  if (PyObject *index = PyNumber_Index(object.ptr())) {
    return py::reinterpret_steal<py::object>(index);
  }
  PyErr_Clear();
  Throw(Kind::kType, what, expected, TypeName(object));
}

}  // namespace

std::string TextOf(py::handle object, const std::string &what) {
  if (!PyUnicode_Check(object.ptr())) Throw(Kind::kType, what, "a str", TypeName(object));
  Py_ssize_t size = 0;
  const char *text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (!text) {
    PyErr_Clear();
    Throw(Kind::kValue, what, "text that UTF-8 can write", "a lone surrogate in it");
  }
  if (std::memchr(text, 0, static_cast<size_t>(size))) {
    Throw(Kind::kValue, what, "text without a NUL", "one in it");
  }
  return std::string(text, static_cast<size_t>(size));
}

int64_t IntegerOf(py::handle object, const std::string &what, int64_t low, int64_t high) {
  const std::string expected = std::to_string(low) + " to " + std::to_string(high);
  const py::object index = Index(object, what, expected);
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow || value < low || value > high) {
    Throw(Kind::kValue, what, expected, overflow ? "one far outside" : std::to_string(value));
  }
  return value;
}

uintptr_t AddressOf(py::handle object, const std::string &what) {
  const std::string expected = "an address (an int of 0 or more)";
  const py::object index = Index(object, what, expected);
  const size_t value = PyLong_AsSize_t(index.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    Throw(Kind::kValue, what, expected, "an int that is none");
  }
  return value;
}

std::string Shown(py::handle object) {
  const auto text = py::reinterpret_steal<py::object>(PyObject_Str(object.ptr()));
  const auto bytes = py::reinterpret_steal<py::object>(
      text ? PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    return "";
  }
  return std::string(PyBytes_AS_STRING(bytes.ptr()),
                     static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())));
}

}  // namespace opabi
