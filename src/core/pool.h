// SPDX-License-Identifier: Apache-2.0
// The threads that a host lends the engine for one run.
#pragma once

#include <functional>
#include <memory>

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

/// Threads of our own, for eager calls that ask for several. The caller works as worker 0. After a fork the
/// child, where the threads are not, starts new ones.
class ThreadPool : public Pool {
 public:
  explicit ThreadPool(int size);
  ~ThreadPool() override;
  int size() const override { return size_; }
  void RunAll(int n, const std::function<void(int)> &task) override;

 private:
  struct Threads;
  const int size_;
  int process_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace opabi
