// SPDX-License-Identifier: Apache-2.0
// When a batch runs on the calling thread and when on the pool: spec/rationale.md, "Scheduling".
#pragma once

#include <cstdint>
#include <functional>

#include "core/pool.h"

namespace opabi {

class Schedule {
 public:
  /// Runs call(worker, begin, end) over [0, n) in ranges: on the calling thread where, by the times
  /// measured so far, the batch takes less than waking the pool; else on all threads over a shared
  /// counter, the first batch too. A batch that turns out slower than expected moves to the pool midway.
  /// `bytes` is the batch's size, inputs and outputs. The call does not throw.
  using Call = std::function<void(int worker, int64_t begin, int64_t end)>;
  void Run(int64_t n, int64_t bytes, Pool &pool, const Call &call);

 private:
  void Update(double ns_per_sample, double ns_per_byte);
  bool measured_ = false;
  double ns_per_sample_ = 0, ns_per_byte_ = 0;  // running averages
};

}  // namespace opabi
