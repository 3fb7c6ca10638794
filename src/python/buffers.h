// SPDX-License-Identifier: Apache-2.0
// Python objects as plain tensors, without a copy where there need be none.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "core/arguments.h"
#include "core/batch.h"
#include "core/kernel.h"

namespace opabi {

/// Which value of which call is meant, put into words only when an error needs them.
struct ValuePlace {
  enum Kind { kInput, kOutput, kArgument, kDefault };
  Kind kind;
  const Kernel *kernel;   // unless kDefault
  int index;              // port or argument
  int64_t sample = -1;    // in a batch
  const char *name = "";  // kDefault: the argument's
  std::string str() const;
};

/// A tensor over a Python object's memory; holds the object's buffer until it is destroyed or Reset. Not
/// movable: the tensor points into it.
class __attribute__((visibility("hidden"))) Buffer {
 public:
  Buffer() = default;
  ~Buffer() { Reset(); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  /// An input or argument: any array (buffer protocol, DLPack, array interface) or scalar. `place` names it
  /// in errors. Throws Error (kType), or the Python error that reading the object raised. `any_strides`:
  /// keep strides that are not contiguous; else such an array is copied.
  void Read(pybind11::handle object, const ValuePlace &place, bool any_strides);

  /// A named argument's value: as Read, and strings, bytes and (nested) lists of numbers.
  void ReadValue(pybind11::handle object, const ValuePlace &place);

  /// An output given by the caller: contiguous, writable, of exactly this dtype and shape.
  void Write(pybind11::handle object, const ValuePlace &place, const PortInfo &info,
             const int64_t *shape);

  /// As Read, and arrays on a CUDA device through DLPack, which makes them ready on `stream` (-1: they are). No
  /// copy: such an array with strides is refused unless `any_strides`.
  void ReadDevice(pybind11::handle object, const ValuePlace &place, bool any_strides,
                  intptr_t stream);

  /// As Write, for outputs on the device.
  void WriteDevice(pybind11::handle object, const ValuePlace &place, const PortInfo &info,
                   const int64_t *shape, intptr_t stream);

  void Reset();

  const PortInfo &info() const { return info_; }
  Origin origin() const { return origin_; }
  void *data() const { return data_; }
  const int64_t *shape() const { return shape_; }
  const int64_t *strides() const { return contiguous_ ? nullptr : strides_; }
  opabi_tensor tensor() const;
  int64_t bytes() const;

  /// Whether some element may lie in [begin, end).
  bool Overlaps(const char *begin, const char *end) const;

 private:
  bool ReadNumber(pybind11::handle object, const ValuePlace &place);
  bool Acquire(pybind11::handle object, const ValuePlace &place, bool writable);
  bool AcquireArray(pybind11::handle object, bool writable);
  void SetExtents(int ndim, const Py_ssize_t *shape, const Py_ssize_t *byte_strides,
                  Py_ssize_t itemsize);
  void CheckOutput(const ValuePlace &place, const PortInfo &info, const int64_t *shape) const;
  bool IsAligned() const;

  pybind11::object keep_;  // the array, or what was made from the caller's object
  Py_buffer view_{};
  bool held_ = false, contiguous_ = true;
  Origin origin_ = Origin::kTyped;
  PortInfo info_;
  void *data_ = nullptr;
  int64_t number_[1] = {0};
  int64_t shape_[OPABI_MAX_NDIM], strides_[OPABI_MAX_NDIM];
};

/// numpy.empty of that shape and dtype.
pybind11::object NewArray(const PortInfo &info, const int64_t *shape);

/// Functions of Python modules, looked up once.
pybind11::object NumpyFunction(const char *name);

}  // namespace opabi
