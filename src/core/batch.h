// SPDX-License-Identifier: Apache-2.0
// One batch as plain tables: what a host fills, and what a kernel sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opabi/opabi.h"

namespace opabi {

/// What is common to all samples of a port or argument in one batch.
struct PortInfo {
  uint32_t dtype = OPABI_DTYPE_ANY;
  int32_t ndim = 0;
  int32_t device_type = OPABI_CPU;
  int32_t device_id = 0;
  std::string layout;
};

/// A sample-major table of tensors, [n_samples * n_ports]. Grows and is reused from batch to batch, so
/// that a steady stream of batches allocates nothing.
class Table {
 public:
  void Resize(int64_t n_samples, int n_ports);

  /// Sets a sample of a port. `shape` has info.ndim extents and belongs to the caller, until the batch is
  /// done. `strides` (in elements) may be NULL: contiguous.
  void Set(int64_t sample, int port, const PortInfo &info, void *data, const int64_t *shape,
           const int64_t *strides = nullptr) {
    tensors_[sample * n_ports_ + port] = {
        data, info.device_type, info.device_id, info.ndim, info.dtype, shape, strides, 0};
  }

  /// Gives every tensor without strides the contiguous ones. Tensors that follow one of equal shape in
  /// their port share its strides.
  void FillStrides();

  /// Whether all samples of a port have equal extents.
  bool HasOneShape(int port) const;

  opabi_tensor &at(int64_t sample, int port) { return tensors_[sample * n_ports_ + port]; }
  const opabi_tensor &at(int64_t sample, int port) const {
    return tensors_[sample * n_ports_ + port];
  }
  const opabi_tensor *row(int64_t sample) const { return tensors_.data() + sample * n_ports_; }
  int n_ports() const { return n_ports_; }
  int64_t n_samples() const { return n_samples_; }

 private:
  std::vector<opabi_tensor> tensors_;
  std::vector<int64_t> strides_;
  int n_ports_ = 0;
  int64_t n_samples_ = 0;
};

}  // namespace opabi
