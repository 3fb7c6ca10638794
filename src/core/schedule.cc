// SPDX-License-Identifier: Apache-2.0
#include "core/schedule.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

namespace opabi {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a pool and waiting for it costs about this much; a batch expected to take less stays inline.
constexpr double kWakeNs = 100e3;

// An inline batch is cut in this many ranges, between which the clock is read: a batch that turns out
// slow moves to the pool after an eighth of it.
constexpr int64_t kInlineRanges = 8;

// Ranges a thread takes from the shared counter, so that uneven samples even out.
constexpr int64_t kRangesPerThread = 8;

double NsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

int64_t RunInline(int64_t n, const Schedule::Call &call, double *ns) {
  const auto start = Clock::now();
  const int64_t step = std::max<int64_t>(1, n / kInlineRanges);
  int64_t begin = 0;
  while (begin < n) {
    const int64_t end = std::min(n, begin + step);
    call(0, begin, end);
    begin = end;
    *ns = NsSince(start);
    if (*ns > kWakeNs) break;
  }
  return begin;
}

double RunOnPool(int64_t begin, int64_t n, int threads, Pool &pool, const Schedule::Call &call) {
  const int64_t step = std::max<int64_t>(1, (n - begin) / (threads * kRangesPerThread));
  std::atomic<int64_t> next{begin};
  std::vector<double> busy(threads, 0);
  pool.RunAll(threads, [&](int worker) {
    const auto start = Clock::now();
    for (int64_t at; (at = next.fetch_add(step)) < n;) call(worker, at, std::min(n, at + step));
    busy[worker] = NsSince(start);
  });
  double total = 0;
  for (double ns : busy) total += ns;
  return total;
}

}  // namespace

void Schedule::Run(int64_t n, int64_t bytes, Pool &pool, const Call &call) {
  const int threads = static_cast<int>(std::min<int64_t>(pool.size(), n));
  if (threads <= 1) return call(0, 0, n);

  // The smaller of the two estimates: the clock of RunInline guards against a wrong one.
  const bool expect_short =
      measured_ &&
      std::min(ns_per_sample_ * n, ns_per_byte_ * std::max<int64_t>(bytes, 1)) < kWakeNs;
  double ns = 0;
  int64_t begin = 0;
  if (expect_short) begin = RunInline(n, call, &ns);
  if (begin < n)
    ns += RunOnPool(begin, n, static_cast<int>(std::min<int64_t>(threads, n - begin)), pool, call);
  Update(ns / n, ns / std::max<int64_t>(bytes, 1));
}

void Schedule::Update(double ns_per_sample, double ns_per_byte) {
  const double weight = measured_ ? 0.25 : 1.0;
  ns_per_sample_ += weight * (ns_per_sample - ns_per_sample_);
  ns_per_byte_ += weight * (ns_per_byte - ns_per_byte_);
  measured_ = true;
}

}  // namespace opabi
