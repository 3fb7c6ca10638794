// SPDX-License-Identifier: Apache-2.0
// Threads that are ended from within, as by pthread_exit.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

namespace opabi {

/// What pthread_exit unwinds the stack with.
using ThreadEnd = abi::__forced_unwind;

/// Where such a thread waits for the process to end. An interpreter that exits ends its other threads when
/// they next ask for its lock, and C++ makes an abort of an end that may not pass a frame.
[[noreturn]] inline void AwaitProcessEnd() {
  while (true) pause();
}

}  // namespace opabi
