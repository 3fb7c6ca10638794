// SPDX-License-Identifier: Apache-2.0
#include "python/buffers.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>

#include "core/dtype.h"
#include "core/error.h"
#include "python/text.h"

namespace py = pybind11;

namespace opabi {
namespace {

enum Code : uint32_t { kSigned = 0, kUnsigned = 1, kFloat = 2, kBool = 6 };  // DLPack's

std::string TypeName(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

/// DLPack's code and a size as an element type, or OPABI_DTYPE_ANY if it is none of ours.
uint32_t DtypeOf(uint32_t code, Py_ssize_t itemsize) {
  const uint32_t one_lane = 1u << 16,
                 dtype = code | static_cast<uint32_t>(itemsize) * 8 << 8 | one_lane;
  return IsDtype(dtype) ? dtype : static_cast<uint32_t>(OPABI_DTYPE_ANY);
}

/// The same for a PEP 3118 format.
uint32_t DtypeFromFormat(const char *format, Py_ssize_t itemsize) {
  if (!format) return OPABI_UINT8;
  if (*format == '@' || *format == '=' || *format == '<') format++;
  if (*format == '>' || *format == '!') {
    if (itemsize > 1) return OPABI_DTYPE_ANY;
    format++;
  }
  if (format[0] == 0 || format[1] != 0) return OPABI_DTYPE_ANY;
  switch (*format) {
    case '?': return DtypeOf(kBool, itemsize);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return DtypeOf(kSigned, itemsize);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return DtypeOf(kUnsigned, itemsize);
    case 'e':
    case 'f':
    case 'd': return DtypeOf(kFloat, itemsize);
    default: return OPABI_DTYPE_ANY;
  }
}

/// The same for a NumPy dtype.
uint32_t DtypeFromNumpy(const py::dtype &dtype) {
  if (dtype.byteorder() != '=' && dtype.byteorder() != '|') return OPABI_DTYPE_ANY;
  switch (dtype.kind()) {
    case 'b': return DtypeOf(kBool, dtype.itemsize());
    case 'i': return DtypeOf(kSigned, dtype.itemsize());
    case 'u': return DtypeOf(kUnsigned, dtype.itemsize());
    case 'f': return DtypeOf(kFloat, dtype.itemsize());
    default: return OPABI_DTYPE_ANY;
  }
}

const char *NumpyName(uint32_t dtype) {
  switch (dtype) {
    case OPABI_BOOL: return "?";
    case OPABI_UINT8: return "u1";
    case OPABI_UINT16: return "u2";
    case OPABI_UINT32: return "u4";
    case OPABI_UINT64: return "u8";
    case OPABI_INT8: return "i1";
    case OPABI_INT16: return "i2";
    case OPABI_INT32: return "i4";
    case OPABI_INT64: return "i8";
    case OPABI_FLOAT16: return "f2";
    case OPABI_FLOAT32: return "f4";
    default: return "f8";
  }
}

std::string ShapeText(const int64_t *shape, int ndim) {
  std::string text = "(";
  for (int d = 0; d < ndim; d++) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + (ndim == 1 ? ",)" : ")");
}

bool IsDate(py::handle object) {
  return py::isinstance(object, NumpyFunction("datetime64")) ||
         py::isinstance(object, NumpyFunction("timedelta64"));
}

[[noreturn]] void ThrowKind(const ValuePlace &place, py::handle object) {
  throw Error(
      Kind::kType, "",
      place.str() +
          ": expected an array or number (NumPy, DLPack, buffer or array interface), found " +
          TypeName(object) + ".");
}

[[noreturn]] void ThrowUnreadable(Kind kind, py::handle object, const ValuePlace &place,
                                  const std::string &why) {
  throw Error(kind, "",
              place.str() + ": expected an array or number, found " + TypeName(object) +
                  ", which cannot be read: " + why);
}

/// `read()`, whose Python errors come out with the place of the value. Ctrl-C and lack of memory pass.
template <typename F>
auto Reading(py::handle object, const ValuePlace &place, const F &read) {
  try {
    return read();
  } catch (py::error_already_set &error) {
    if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
    ThrowUnreadable(error.matches(PyExc_ValueError) ? Kind::kValue : Kind::kType, object, place,
                    Shown(error.type().attr("__name__")) + ": " + Shown(error.value()));
  } catch (const py::cast_error &) {
    ThrowUnreadable(Kind::kType, object, place, "its __dlpack_device__ is no pair of integers");
  }
}

std::pair<int, int> DlpackDevice(py::handle object, const ValuePlace &place) {
  return Reading(object, place,
                 [&] { return object.attr("__dlpack_device__")().cast<std::pair<int, int>>(); });
}

/// Anything else that is an array, as a NumPy array over the same memory.
py::object AsArray(py::handle object, const ValuePlace &place) {
  if (py::hasattr(object, "__dlpack__")) {
    if (py::hasattr(object, "__dlpack_device__")) {
      if (DlpackDevice(object, place).first != OPABI_CPU) {
        throw Error(Kind::kType, "OPABI-H-002",
                    place.str() + ": expected data in host memory, found " + TypeName(object) +
                        " on another device. Copy it to the CPU first.");
      }
    }
    return NumpyFunction("from_dlpack")(object);
  }
  if (py::hasattr(object, "__array_interface__") || py::hasattr(object, "__array__")) {
    return NumpyFunction("asarray")(object);
  }
  ThrowKind(place, object);
}

}  // namespace

std::string ValuePlace::str() const {
  std::string text = kind == kDefault ? "argument '" + std::string(name) + "', default"
                                      : "kernel '" + kernel->name() + "', ";
  if (kind == kInput) text += kernel->signature().InputLabel(index);
  if (kind == kOutput) text += kernel->signature().OutputLabel(index);
  if (kind == kArgument)
    text += std::string("argument '") + kernel->descriptor().args[index].name + "'";
  return sample < 0 ? text : text + ", sample " + std::to_string(sample);
}

py::object NumpyFunction(const char *name) { return py::module_::import("numpy").attr(name); }

py::object NewArray(const PortInfo &info, const int64_t *shape) {
  static PyObject *empty = nullptr;  // looked up once: this is on the eager call's path
  static PyObject *dtypes[256];      // by code and size
  if (!empty) empty = NumpyFunction("empty").release().ptr();
  PyObject *&dtype = dtypes[(info.dtype & 0xF) << 4 | DtypeSize(info.dtype)];
  if (!dtype) dtype = NumpyFunction("dtype")(NumpyName(info.dtype)).release().ptr();
  py::tuple extents(info.ndim);
  for (int d = 0; d < info.ndim; d++) extents[d] = shape[d];
  PyObject *arguments[] = {extents.ptr(), dtype};
  PyObject *array = PyObject_Vectorcall(empty, arguments, 2, nullptr);
  if (!array) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(array);
}

void Buffer::Reset() {
  if (held_) PyBuffer_Release(&view_);
  held_ = false;
  keep_ = py::object();
}

opabi_tensor Buffer::tensor() const {
  return {data_, info_.device_type, info_.device_id, info_.ndim, info_.dtype, shape_, strides_, 0};
}

int64_t Buffer::bytes() const {
  const opabi_tensor t = tensor();
  return opabi_numel(&t) * DtypeSize(info_.dtype);
}

bool Buffer::Overlaps(const char *begin, const char *end) const {
  const char *low = static_cast<const char *>(data_), *high = low + DtypeSize(info_.dtype);
  if (begin == end || bytes() == 0) return false;
  for (int d = 0; d < info_.ndim; d++) {
    const int64_t reach = strides_[d] * DtypeSize(info_.dtype) * (shape_[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return low < end && begin < high;
}

/// Takes the memory of an object that has the buffer interface; false if it has none, or, where one is
/// asked for, no writable one.
bool Buffer::Acquire(py::handle object, const ValuePlace &place, bool writable) {
  if (AcquireArray(object, writable)) return true;
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw py::error_already_set();
    PyErr_Clear();
    return false;
  }
  held_ = true;
  // NumPy gives its dates out as bytes, without the strides that were asked for.
  if (!view_.strides && IsDate(object)) ThrowKind(place, object);
  info_.dtype = DtypeFromFormat(view_.format, view_.itemsize);
  if (info_.dtype == OPABI_DTYPE_ANY) {
    throw Error(
        Kind::kType, "OPABI-H-002",
        place.str() +
            ": expected bool, an integer or a float type in native byte order, found the format '" +
            view_.format + "'. Convert it with astype() first.");
  }
  if (view_.ndim > OPABI_MAX_NDIM) {
    throw Error(
        Kind::kType, "OPABI-H-002",
        place.str() + ": expected a rank of 0 to 15, found " + std::to_string(view_.ndim) + ".");
  }
  data_ = view_.buf;
  SetExtents(view_.ndim, view_.shape, view_.strides, view_.itemsize);
  return true;
}

/// The same for a NumPy array, past its buffer interface, which takes as long as the rest of a small call.
bool Buffer::AcquireArray(py::handle object, bool writable) {
  if (!py::isinstance<py::array>(object)) return false;
  auto array = py::reinterpret_borrow<py::array>(object);
  const py::dtype dtype = array.dtype();
  const uint32_t found = DtypeFromNumpy(dtype);
  // What is left over fails, or warns, in the buffer interface.
  if (found == OPABI_DTYPE_ANY || array.ndim() > OPABI_MAX_NDIM || array.flags() < 0) return false;
  if (writable && !array.writeable()) return false;
  info_.dtype = found;
  data_ = const_cast<void *>(array.data());
  SetExtents(static_cast<int>(array.ndim()), array.shape(), array.strides(), dtype.itemsize());
  keep_ = std::move(array);
  return true;
}

void Buffer::SetExtents(int ndim, const Py_ssize_t *shape, const Py_ssize_t *byte_strides,
                        Py_ssize_t itemsize) {
  info_.ndim = ndim;
  contiguous_ = true;
  int64_t stride = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    shape_[d] = shape[d];
    // ctypes leaves the strides away, though they were asked for.
    strides_[d] = byte_strides ? byte_strides[d] / itemsize : stride;
    if (byte_strides && byte_strides[d] % itemsize != 0) strides_[d] = INT64_MIN;
    if (shape_[d] != 1 && strides_[d] != stride) contiguous_ = false;
    stride *= shape_[d];
  }
  if (stride == 0) contiguous_ = true;  // no elements
}

bool Buffer::IsAligned() const {
  for (int d = 0; d < info_.ndim; d++) {
    if (strides_[d] == INT64_MIN) return false;
  }
  return reinterpret_cast<uintptr_t>(data_) % static_cast<uintptr_t>(DtypeSize(info_.dtype)) == 0;
}

bool Buffer::ReadNumber(py::handle object, const ValuePlace &place) {
  info_.ndim = 0;
  contiguous_ = true;
  data_ = number_;
  origin_ = Origin::kNumber;
  PyObject *o = object.ptr();
  if (PyBool_Check(o)) {
    info_.dtype = OPABI_BOOL;
    number_[0] = o == Py_True;
  } else if (PyFloat_Check(o)) {
    const double value = PyFloat_AS_DOUBLE(o);
    info_.dtype = OPABI_FLOAT64;
    std::memcpy(number_, &value, sizeof value);
  } else if (PyLong_Check(o)) {
    int overflow = 0;
    number_[0] = PyLong_AsLongLongAndOverflow(o, &overflow);
    info_.dtype = OPABI_INT64;
    if (overflow != 0) {
      const unsigned long long value = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
      if (overflow < 0 || PyErr_Occurred()) {
        PyErr_Clear();
        throw Error(Kind::kValue, "OPABI-H-013",
                    place.str() + ": the number fits neither int64 nor uint64.");
      }
      std::memcpy(number_, &value, sizeof value);
      info_.dtype = OPABI_UINT64;
    }
  } else {
    origin_ = Origin::kTyped;
    return false;
  }
  return true;
}

void Buffer::Read(py::handle object, const ValuePlace &place, bool any_strides) {
  Reset();
  info_ = PortInfo();
  origin_ = Origin::kTyped;
  if (!Acquire(object, place, false)) {
    if (ReadNumber(object, place)) return;
    // NumPy refuses buffers of some types (datetime, structures with objects): they end here too.
    keep_ = Reading(object, place, [&] { return AsArray(object, place); });
    if (!Acquire(keep_, place, false)) ThrowKind(place, object);
  }
  if (IsAligned() && (contiguous_ || any_strides)) return;
  py::object copy = NumpyFunction("array")(
      keep_ ? keep_ : py::reinterpret_borrow<py::object>(object), py::arg("order") = "C");
  Reset();
  keep_ = copy;
  if (!Acquire(keep_, place, false)) ThrowKind(place, object);
}

void Buffer::ReadValue(py::handle object, const ValuePlace &place) {
  PyObject *o = object.ptr();
  if (PyUnicode_Check(o)) {
    Read(py::bytes(TextOf(object, place.str())), place, false);
    origin_ = Origin::kText;
    return;
  }
  if (PyList_Check(o) || PyTuple_Check(o)) {
    py::object array = Reading(object, place, [&] { return NumpyFunction("asarray")(object); });
    Read(array, place, false);
    if (!keep_) keep_ = array;
    // For Python numbers NumPy picked one of these, as ReadNumber does.
    const bool guessed = info_.dtype == OPABI_INT64 || info_.dtype == OPABI_UINT64 ||
                         info_.dtype == OPABI_FLOAT64 || info_.dtype == OPABI_BOOL;
    if (guessed) origin_ = Origin::kNumber;
    return;
  }
  Read(object, place, false);
}

void Buffer::ReadDevice(py::handle object, const ValuePlace &place, bool any_strides,
                        intptr_t stream) {
  if (!py::hasattr(object, "__dlpack_device__")) return Read(object, place, any_strides);
  const auto device = DlpackDevice(object, place);
  if (device.first == OPABI_CPU) return Read(object, place, any_strides);
  if (device.first != OPABI_CUDA) {
    throw Error(Kind::kType, "OPABI-H-002",
                place.str() + ": expected data on the CPU or a CUDA device, found " +
                    TypeName(object) + " on DLPack's device type " + std::to_string(device.first) +
                    ".");
  }
  Reset();
  info_ = PortInfo();
  origin_ = Origin::kTyped;
  // The capsule is not consumed: it gives its tensor back when it is dropped.
  keep_ = object.attr("__dlpack__")(py::arg("stream") = stream);
  const auto *tensor =
      static_cast<const opabi_tensor *>(PyCapsule_GetPointer(keep_.ptr(), "dltensor"));
  if (!tensor) throw py::error_already_set();
  if (!IsDtype(tensor->dtype) || tensor->ndim > OPABI_MAX_NDIM) {
    throw Error(Kind::kType, "OPABI-H-002",
                place.str() +
                    ": expected bool, an integer or a float type of rank 0 to 15, found " +
                    DtypeName(tensor->dtype) + " of rank " + std::to_string(tensor->ndim) + ".");
  }
  info_.dtype = tensor->dtype;
  info_.ndim = tensor->ndim;
  info_.device_type = OPABI_CUDA;
  info_.device_id = device.second;
  data_ = static_cast<char *>(tensor->data) + tensor->byte_offset;
  contiguous_ = true;
  int64_t stride = 1;
  for (int d = tensor->ndim - 1; d >= 0; d--) {
    shape_[d] = tensor->shape[d];
    strides_[d] = tensor->strides ? tensor->strides[d] : stride;
    if (shape_[d] != 1 && strides_[d] != stride) contiguous_ = false;
    stride *= shape_[d];
  }
  if (stride == 0) contiguous_ = true;  // no elements
  if (contiguous_ || any_strides) return;
  throw Error(
      Kind::kValue, "OPABI-H-002",
      place.str() +
          ": expected a contiguous array, found one with strides, and arrays on the GPU are not "
          "copied unasked. Make it contiguous first.");
}

void Buffer::WriteDevice(py::handle object, const ValuePlace &place, const PortInfo &info,
                         const int64_t *shape, intptr_t stream) {
  ReadDevice(object, place, true, stream);
  if (info_.device_type != OPABI_CUDA || info_.device_id != info.device_id) {
    throw Error(Kind::kType, "OPABI-H-002",
                place.str() + ": expected out= on CUDA device " + std::to_string(info.device_id) +
                    ", found " + TypeName(object) + " elsewhere.");
  }
  CheckOutput(place, info, shape);
}

void Buffer::Write(py::handle object, const ValuePlace &place, const PortInfo &info,
                   const int64_t *shape) {
  Reset();
  if (!Acquire(object, place, true)) {
    if (py::hasattr(object, "__dlpack__")) keep_ = AsArray(object, place);
    if (!keep_ || !Acquire(keep_, place, true)) {
      throw Error(Kind::kType, "",
                  place.str() + ": expected a writable array for out=, found " + TypeName(object) +
                      (PyObject_CheckBuffer(object.ptr()) ? " that is read-only." : "."));
    }
  }
  CheckOutput(place, info, shape);
}

void Buffer::CheckOutput(const ValuePlace &place, const PortInfo &info,
                         const int64_t *shape) const {
  const bool same_shape = info_.ndim == info.ndim && std::equal(shape_, shape_ + info.ndim, shape);
  if (info_.dtype != info.dtype || !same_shape) {
    throw Error(info_.dtype != info.dtype ? Kind::kType : Kind::kValue, "",
                place.str() + ": expected out= of " + DtypeName(info.dtype) + " " +
                    ShapeText(shape, info.ndim) + ", found " + DtypeName(info_.dtype) + " " +
                    ShapeText(shape_, info_.ndim) + ".");
  }
  if (!contiguous_ || !IsAligned()) {
    throw Error(Kind::kValue, "",
                place.str() + ": expected a contiguous array for out=, found one with strides.");
  }
}

}  // namespace opabi
