// SPDX-License-Identifier: Apache-2.0
// What a kernel function and a setup function may ask about the sample at hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include <opabi/cpp/calls.hpp>

namespace opabi {

/// First parameter of a kernel function that wants more than its tensors.
class context {
 public:
  context(const opabi_call *call, int64_t sample) : call_(call), sample_(sample) {}
  const opabi_call &call() const { return *call_; }
  int64_t sample() const { return sample_; }                       // in the call
  int64_t index() const { return call_->first_sample + sample_; }  // in the batch
  const char *in_layout(int port) const { return call_->in_layouts[port]; }
  const char *out_layout(int port) const { return call_->out_layouts[port]; }

  /// The scratch memory that setup asked for, uninitialised.
  template <class T>
  T *scratch() const {
    return static_cast<T *>(call_->scratch[OPABI_SCRATCH_HOST]);
  }
  /// The object that opabi::state<T> made for this operator.
  template <class T>
  T &state() const {
    return *static_cast<T *>(call_->instance);
  }

 private:
  const opabi_call *call_;
  int64_t sample_;
};

/// One sample in a setup function: reads the inputs' shapes, sets the outputs'.
class shapes {
 public:
  shapes(const opabi_setup *setup, int64_t sample) : setup_(setup), sample_(sample) {}
  const opabi_setup &setup() const { return *setup_; }
  int64_t sample() const { return sample_; }

  /// The extents of an input: s.input(0)[1], s.input(0).size() is its rank.
  flat<const int64_t> input(int port) const { return {tensor(port).shape, tensor(port).ndim}; }
  uint32_t dtype(int port) const { return tensor(port).dtype; }

  template <class T>
  T argument(int index) const {
    return detail::typed<const T, 0>("argument", index,
                                     setup_->args[sample_ * setup_->n_args + index])();
  }

  void set(int port, const int64_t *extents, int32_t n) const {
    int32_t &ndim = setup_->out_ndim[port];
    if (n > setup_->max_ndim || (ndim != OPABI_UNSET && ndim != n)) {
      throw error(OPABI_ERROR_INTERNAL,
                  "setup gives output " + std::to_string(port) + " " + std::to_string(n) +
                      " extents, but its rank is " +
                      std::to_string(ndim == OPABI_UNSET ? setup_->max_ndim : ndim) +
                      (ndim == OPABI_UNSET ? " at most" : ""));
    }
    ndim = n;
    int64_t *row = setup_->out_shape + (sample_ * setup_->n_out + port) * setup_->max_ndim;
    for (int32_t d = 0; d < n; d++) row[d] = extents[d];
  }
  void set(int port, std::initializer_list<int64_t> extents) const {
    set(port, extents.begin(), static_cast<int32_t>(extents.size()));
  }
  void set(int port, flat<const int64_t> extents) const {
    set(port, extents.data(), static_cast<int32_t>(extents.size()));
  }
  void set_dtype(int port, uint32_t dtype) const { setup_->out_dtype[port] = dtype; }
  void set_layout(int port, std::string_view layout) const {
    if (layout.size() >= OPABI_LAYOUT_SIZE) {
      throw error(OPABI_ERROR_INTERNAL,
                  "layout '" + std::string(layout) + "' has more than 15 letters");
    }
    char *slot = setup_->out_layout + port * OPABI_LAYOUT_SIZE;
    std::memset(slot, 0, OPABI_LAYOUT_SIZE);
    std::memcpy(slot, layout.data(), layout.size());
  }
  /// Host memory that one call of run needs, whatever its number of samples.
  void need_scratch(int64_t bytes) const {
    int64_t &most = setup_->scratch_bytes[OPABI_SCRATCH_HOST];
    if (bytes > most) most = bytes;
  }

 private:
  const opabi_tensor &tensor(int port) const {
    return setup_->inputs[sample_ * setup_->n_in + port];
  }
  const opabi_setup *setup_;
  int64_t sample_;
};

}  // namespace opabi
