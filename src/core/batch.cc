// SPDX-License-Identifier: Apache-2.0
#include "core/batch.h"

#include <algorithm>
#include <cstring>

namespace opabi {

void Table::Resize(int64_t n_samples, int n_ports) {
  n_samples_ = n_samples;
  n_ports_ = n_ports;
  const size_t size = static_cast<size_t>(n_samples) * n_ports;
  if (tensors_.size() < size) tensors_.resize(size);
}

bool Table::HasOneShape(int port) const {
  const opabi_tensor *first = tensors_.data() + port, *end = row(n_samples_);
  for (const opabi_tensor *t = first + n_ports_; t < end; t += n_ports_) {
    if (t->shape == first->shape) continue;
    for (int32_t d = 0; d < first->ndim; d++) {
      if (t->shape[d] != first->shape[d]) return false;
    }
  }
  return true;
}

void Table::FillStrides() {
  static const int64_t kOne = 1;
  int64_t needed = 0;
  for (int port = 0; port < n_ports_ && n_samples_; port++) needed += std::max(at(0, port).ndim, 0);
  needed *= n_samples_;
  if (static_cast<int64_t>(strides_.size()) < needed) strides_.resize(needed);
  int64_t *next = strides_.data();
  for (int port = 0; port < n_ports_; port++) {
    const opabi_tensor *previous = nullptr;
    for (int64_t s = 0; s < n_samples_; s++) {
      opabi_tensor &tensor = at(s, port);
      const int32_t ndim = tensor.ndim;
      if (tensor.strides || ndim == 0) continue;
      if (ndim == 1) {
        tensor.strides = &kOne;
        continue;
      }
      if (previous && std::memcmp(previous->shape, tensor.shape, sizeof(int64_t) * ndim) == 0) {
        tensor.strides = previous->strides;
        continue;
      }
      int64_t stride = 1;
      for (int d = ndim - 1; d >= 0; d--) {
        next[d] = stride;
        // An extent beyond its allocation's size cannot be here; wrap rather than overflow all the same.
        stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * tensor.shape[d]);
      }
      tensor.strides = next;
      next += ndim;
      previous = &tensor;
    }
  }
}

}  // namespace opabi
