// SPDX-License-Identifier: Apache-2.0
#include "core/pool.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace opabi {

struct ThreadPool::Threads {
  explicit Threads(int size) {
    try {
      for (int worker = 1; worker < size; worker++) {
        threads.emplace_back([this, worker] { Work(worker); });
      }
    } catch (...) {  // the system has no more threads: those that run must end first
      Stop();
      throw;
    }
  }
  ~Threads() { Stop(); }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread &thread : threads) thread.join();
  }

  void RunAll(int n, const std::function<void(int)> &given) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      task = &given;
      wanted = n;
      running = n - 1;
      round++;
    }
    wake.notify_all();
    given(0);
    std::unique_lock<std::mutex> lock(mutex);
    done.wait(lock, [this] { return running == 0; });
  }

  void Work(int worker) {
    int64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      if (worker >= wanted) continue;
      const auto &given = *task;
      lock.unlock();
      given(worker);
      lock.lock();
      if (--running == 0) done.notify_one();
    }
  }

  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void(int)> *task = nullptr;
  int64_t round = 0;
  int wanted = 0, running = 0;
  bool stop = false;
};

ThreadPool::ThreadPool(int size)
    : size_(size), process_(getpid()), threads_(std::make_unique<Threads>(size)) {}

ThreadPool::~ThreadPool() {
  // Threads of another process cannot be joined here, nor can what they may hold be freed.
  if (process_ != getpid()) (void)threads_.release();
}

void ThreadPool::RunAll(int n, const std::function<void(int)> &task) {
  if (process_ != getpid()) {
    (void)threads_.release();
    threads_ = std::make_unique<Threads>(size_);
    process_ = getpid();
  }
  threads_->RunAll(n, task);
}

}  // namespace opabi
