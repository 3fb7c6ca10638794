// SPDX-License-Identifier: Apache-2.0
// From a function's status and error buffer to the exception the user sees.
#pragma once

#include <cstdint>
#include <string>

#include "core/kernel.h"

namespace opabi {

/// What a host lends a kernel for reporting: err, err_cap and err_where.
struct ErrorBuffer {
  char text[1024];
  int64_t where[4];
  void Reset() {
    text[0] = 0;
    for (int64_t &w : where) w = OPABI_UNSET;
  }
};

/// A call that did not return OPABI_OK, for samples [begin, end) of the batch.
struct Failure {
  bool happened = false;
  int32_t status = 0;
  int64_t begin = 0, end = 0;
  std::string message, rule;
  int64_t where[4] = {OPABI_UNSET, OPABI_UNSET, OPABI_UNSET, OPABI_UNSET};

  /// The sample of the batch that failed, or the first of the range where the kernel does not say.
  int64_t sample() const;
  bool knows_sample() const;
};

Failure MakeFailure(int32_t status, const ErrorBuffer &buffer, int64_t begin, int64_t end);

/// Throws Error for `function` ("run", "setup", "create", ...).
[[noreturn]] void ThrowFailure(const Kernel &kernel, const char *function, const Failure &failure);

}  // namespace opabi
