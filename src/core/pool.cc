// SPDX-License-Identifier: Apache-2.0
#include "core/pool.h"

namespace opabi {

ThreadPool::ThreadPool(int size) {
  for (int worker = 1; worker < size; worker++) {
    threads_.emplace_back([this, worker] { Work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread &thread : threads_) thread.join();
}

void ThreadPool::RunAll(int n, const std::function<void(int)> &task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    task_ = &task;
    wanted_ = n;
    running_ = n - 1;
    round_++;
  }
  wake_.notify_all();
  task(0);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void ThreadPool::Work(int worker) {
  int64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    if (worker >= wanted_) continue;
    const auto &task = *task_;
    lock.unlock();
    task(worker);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace opabi
