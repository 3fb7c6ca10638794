// SPDX-License-Identifier: Apache-2.0
// Descriptors made by hand, and memory that ends where they do.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "opabi/opabi.h"

namespace opabi {

inline int32_t RunNothing(const opabi_call *) { return OPABI_OK; }

/// A kernel that keeps all rules; tests break one.
inline opabi_kernel GoodKernel() {
  opabi_kernel kernel{};
  kernel.magic = OPABI_MAGIC;
  kernel.struct_size = sizeof kernel;
  kernel.abi_min = OPABI_VERSION(1, 0);
  kernel.name = "blur";
  kernel.signature = "image: T[h,w] -> T[h,w]";
  kernel.device_type = OPABI_CPU;
  kernel.run = RunNothing;
  return kernel;
}

inline opabi_library GoodLibrary(const opabi_kernel *const *kernels, int64_t n_kernels) {
  return {
      OPABI_MAGIC, sizeof(opabi_library), OPABI_VERSION(1, 0), "mylib", "1.2.3", nullptr, n_kernels,
      kernels};
}

/// Copies of bytes that end where the readable memory does: one byte read beyond them ends the
/// process.
class MemoryEnd {
 public:
  MemoryEnd(const void *bytes, size_t n) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t readable = (n + page - 1) / page * page;
    size_ = readable + page;
    base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) std::abort();
    mprotect(static_cast<char *>(base_) + readable, page, PROT_NONE);
    start_ = static_cast<char *>(base_) + readable - n;
    std::memcpy(start_, bytes, n);
  }
  explicit MemoryEnd(const std::string &text) : MemoryEnd(text.data(), text.size()) {}
  ~MemoryEnd() { munmap(base_, size_); }
  MemoryEnd(const MemoryEnd &) = delete;
  MemoryEnd &operator=(const MemoryEnd &) = delete;

  template <typename T>
  const T *As() const {
    return reinterpret_cast<const T *>(start_);
  }

 private:
  void *base_;
  char *start_;
  size_t size_;
};

}  // namespace opabi
