// SPDX-License-Identifier: Apache-2.0
// The threads that a host lends the engine for one run.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace opabi {

class Pool {
 public:
  virtual ~Pool() = default;
  virtual int size() const = 0;

  /// Calls task(0) ... task(n - 1), each on a thread of its own, n <= size(); returns when all have ended.
  /// The task does not throw.
  virtual void RunAll(int n, const std::function<void(int worker)> &task) = 0;
};

/// The calling thread alone.
class InlinePool : public Pool {
 public:
  int size() const override { return 1; }
  void RunAll(int n, const std::function<void(int)> &task) override {
    for (int i = 0; i < n; i++) task(i);
  }
};

/// Threads of our own, for eager calls that ask for several. The caller works as worker 0.
class ThreadPool : public Pool {
 public:
  explicit ThreadPool(int size);
  ~ThreadPool() override;
  int size() const override { return static_cast<int>(threads_.size()) + 1; }
  void RunAll(int n, const std::function<void(int)> &task) override;

 private:
  void Work(int worker);
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int)> *task_ = nullptr;
  int64_t round_ = 0;
  int wanted_ = 0, running_ = 0;
  bool stop_ = false;
};

}  // namespace opabi
