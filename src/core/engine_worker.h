// SPDX-License-Identifier: Apache-2.0
// What one thread of the engine has for its calls.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/engine.h"
#include "core/report.h"

namespace opabi {

/// Bytes aligned for OPABI-H-015; grows, never shrinks.
class Scratch {
 public:
  char *Reserve(int64_t bytes) {
    if (bytes > capacity_) {
      data_.reset(static_cast<char *>(
          std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)));
      capacity_ = data_ ? bytes : 0;
      if (!data_) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  static constexpr int64_t kAlignment = 256;
  struct Free {
    void operator()(char *data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;
  int64_t capacity_ = 0;
};

struct Engine::Worker {
  Scratch scratch;
  void *scratch_table[3] = {nullptr, nullptr, nullptr};
  ErrorBuffer error;
  Failure failure;  // of the lowest sample that failed here in this batch
};

}  // namespace opabi
