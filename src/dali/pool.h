// SPDX-License-Identifier: Apache-2.0
// The thread pool of one call of an operator, as the engine wants it.
#pragma once

#include <algorithm>

#include "core/pool.h"
#include "dali/pipeline/util/thread_pool.h"

namespace opabi {

class WorkspacePool : public Pool {
 public:
  /// `limit`: the engine's number of workers, which the pool may exceed.
  WorkspacePool(dali::ThreadPool &pool, int limit)
      : pool_(pool), size_(std::min(pool.NumThreads(), limit)) {}

  int size() const override { return size_; }

  void RunAll(int n, const std::function<void(int)> &task) override {
    for (int i = 0; i < n; i++) pool_.AddWork([&task, i](int) { task(i); });
    pool_.RunAll();
  }

 private:
  dali::ThreadPool &pool_;
  int size_;
};

}  // namespace opabi
