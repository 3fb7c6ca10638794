// SPDX-License-Identifier: Apache-2.0
// When a batch is run on the calling thread and when on the pool (design: spec/rationale.md, "Scheduling").
#pragma once

#include <cstdint>
#include <functional>

#include "core/pool.h"

namespace opabi {

class Schedule {
 public:
  /// Runs call(worker, begin, end) over [0, n) in ranges. On one thread where the whole batch is expected
  /// to take less than waking the pool does, by the times measured so far; else on all threads over a
  /// shared counter. A batch that turns out slower than expected moves to the pool midway.
  /// `bytes` is the batch's size, inputs and outputs. The call does not throw.
  using Call = std::function<void(int worker, int64_t begin, int64_t end)>;
  void Run(int64_t n, int64_t bytes, Pool &pool, const Call &call);

 private:
  double ns_per_sample_ = -1;  // running averages; -1: nothing measured yet
  double ns_per_byte_ = 0;
};

}  // namespace opabi
