// SPDX-License-Identifier: Apache-2.0
// Views: a tensor's elements, typed. Copy them freely; they own nothing.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <opabi/opabi.h>

namespace opabi {

/// A contiguous tensor of any rank as one run of elements.
template <class T>
class flat {
 public:
  flat(T *data, int64_t size) : data_(data), size_(size) {}
  T *data() const { return data_; }
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T *begin() const { return data_; }
  T *end() const { return data_ + size_; }
  T &operator[](int64_t i) const { return data_[i]; }

 private:
  T *data_;
  int64_t size_;
};

/// A contiguous tensor of rank N: in(i, j, k). What treats all elements alike is faster over a flat
/// or over flatten(): compilers vectorise the innermost loop alone, and channels are few.
template <class T, int N>
class view {
 public:
  static constexpr int rank = N;
  view(T *data, const int64_t *shape) : data_(data) {
    for (int d = 0; d < N; d++) extent_[d] = shape[d];
  }
  T *data() const { return data_; }
  int64_t extent(int d) const { return extent_[d]; }
  int64_t size() const {
    int64_t n = 1;
    for (int d = 0; d < N; d++) n *= extent_[d];
    return n;
  }
  flat<T> flatten() const { return {data_, size()}; }

  template <class... Index>
  T &operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "opabi: as many indices as the view has dimensions");
    int64_t at = 0;
    [[maybe_unused]] int d = 0;
    ((at = at * extent_[d++] + static_cast<int64_t>(index)), ...);
    return data_[at];
  }

 private:
  T *data_;
  int64_t extent_[N ? N : 1];
};

/// An input that need not be contiguous, for kernels that declare OPABI_ANY_STRIDES.
template <class T, int N>
class strided {
 public:
  static constexpr int rank = N;
  strided(T *data, const int64_t *shape, const int64_t *strides) : data_(data) {
    for (int d = 0; d < N; d++) extent_[d] = shape[d], stride_[d] = strides[d];
  }
  T *data() const { return data_; }
  int64_t extent(int d) const { return extent_[d]; }
  int64_t stride(int d) const { return stride_[d]; }

  template <class... Index>
  T &operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "opabi: as many indices as the view has dimensions");
    int64_t at = 0;
    [[maybe_unused]] int d = 0;
    ((at += stride_[d++] * static_cast<int64_t>(index)), ...);
    return data_[at];
  }

 private:
  T *data_;
  int64_t extent_[N ? N : 1], stride_[N ? N : 1];
};

/// An output whose extents are bounded by "<=" in the signature. It starts with extent 0 in each
/// bounded dimension, and what the kernel leaves it with is its actual shape.
template <class T, int N = 1>
class bounded {
 public:
  static constexpr int rank = N;
  bounded(T *data, const int64_t *bound, int64_t *actual)
      : data_(data), bound_(bound), actual_(actual) {
    for (int d = 0; d < N; d++) {
      if (actual_[d] == OPABI_UNSET) actual_[d] = 0;
    }
  }
  T *data() const { return data_; }
  int64_t extent(int d) const { return actual_[d]; }
  int64_t bound(int d) const { return bound_[d]; }

  /// Sets the actual extents; elements are laid out contiguously in them.
  template <class... Extent>
  void resize(Extent... extent) {
    static_assert(sizeof...(Extent) == N, "opabi: as many extents as the output has dimensions");
    const int64_t wanted[] = {static_cast<int64_t>(extent)...};
    for (int d = 0; d < N; d++) {
      if (wanted[d] < 0 || wanted[d] > bound_[d]) {
        throw std::out_of_range("an output of extent " + std::to_string(wanted[d]) +
                                " where 0 to " + std::to_string(bound_[d]) + " are allowed");
      }
    }
    for (int d = 0; d < N; d++) actual_[d] = wanted[d];
  }
  void push_back(T value) {
    static_assert(N == 1, "opabi: push_back is for outputs of rank 1");
    resize(actual_[0] + 1);
    data_[actual_[0] - 1] = value;
  }
  view<T, N> now() const { return {data_, actual_}; }

 private:
  T *data_;
  const int64_t *bound_;
  int64_t *actual_;
};

}  // namespace opabi
