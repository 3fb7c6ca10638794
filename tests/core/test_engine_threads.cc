// SPDX-License-Identifier: Apache-2.0
// The engine on several threads: every sample once, whatever the split. Run under TSan too.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "engine_calls.h"
#include "thrown.h"

namespace opabi {
namespace {

struct Seen {
  std::atomic<int64_t> calls{0}, at_once{0}, most_at_once{0};
  std::atomic<int> workers[64] = {};
  std::atomic<bool> shared_worker{false};
};

Seen *g_seen;

int32_t Enter(const opabi_call *call) {
  g_seen->calls++;
  const int64_t now = ++g_seen->at_once;
  int64_t most = g_seen->most_at_once;
  while (now > most && !g_seen->most_at_once.compare_exchange_weak(most, now)) {
  }
  if (++g_seen->workers[call->worker] > 1) g_seen->shared_worker = true;
  for (int64_t s = 0; s < call->n_samples; s++) {
    const auto *x = static_cast<const int32_t *>(call->inputs[s].data);
    std::this_thread::sleep_for(std::chrono::microseconds(x[0] % 3 ? 50 : 1));
    static_cast<int32_t *>(call->outputs[s].data)[0] +=
        1 + static_cast<int32_t>(call->first_sample + s);
  }
  g_seen->workers[call->worker]--;
  g_seen->at_once--;
  return OPABI_OK;
}

std::vector<Sample> Numbers(int n) {
  std::vector<Sample> samples;
  for (int i = 0; i < n; i++) samples.push_back(MakeSample<int32_t>({1}, {i}));
  return samples;
}

opabi_kernel EnterKernel() {
  opabi_kernel descriptor = GoodKernel();
  descriptor.signature = "int32[n] -> int32[n]";
  descriptor.run = Enter;
  return descriptor;
}

TEST_CASE("test_run_on_a_pool_delivers_every_sample_once") {  // OPABI-H-012 OPABI-K-023
  Seen seen;
  g_seen = &seen;
  ThreadPool pool(4);
  Engine engine(Adopted(EnterKernel()), {});
  for (int n : {1, 3, 64, 200, 2}) {
    auto samples = Numbers(n);
    auto out = RunBatch(engine, OPABI_INT32, samples, pool);
    for (int i = 0; i < n; i++) CHECK(Values<int32_t>(out[i])[0] == i + 1);
  }
  CHECK(!seen.shared_worker);
  CHECK(seen.most_at_once > 1);
}

TEST_CASE("test_run_with_an_instance_never_overlaps_unless_reentrant") {  // OPABI-H-011
  for (bool reentrant : {false, true}) {
    Seen seen;
    g_seen = &seen;
    ThreadPool pool(4);
    opabi_kernel descriptor = EnterKernel();
    descriptor.create = [](const opabi_create *) -> int32_t { return OPABI_OK; };
    descriptor.destroy = [](void *, void *) {};
    descriptor.traits = reentrant ? OPABI_REENTRANT : 0;
    Engine engine(Adopted(descriptor), {});
    auto samples = Numbers(100);
    RunBatch(engine, OPABI_INT32, samples, pool);
    CHECK((seen.most_at_once > 1) == reentrant);
  }
}

TEST_CASE("test_run_whole_batch_is_one_call") {  // OPABI-H-010
  Seen seen;
  g_seen = &seen;
  ThreadPool pool(4);
  opabi_kernel descriptor = EnterKernel();
  descriptor.critical = OPABI_WHOLE_BATCH;
  for (bool checked : {false, true}) {
    EngineOptions options;
    options.checked = checked;
    Engine engine(Adopted(descriptor), options);
    auto samples = Numbers(100);
    seen.calls = 0;
    RunBatch(engine, OPABI_INT32, samples, pool);
    CHECK(seen.calls == 1);
  }
}

int32_t FailOnSome(const opabi_call *call) {
  g_seen->calls += call->n_samples;
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int32_t x = static_cast<const int32_t *>(call->inputs[s].data)[0];
    if (x == 37 || x == 90) return OPABI_FAIL(call, s, OPABI_ERROR_VALUE, "bad");
  }
  return OPABI_OK;
}

TEST_CASE("test_run_failure_on_a_pool_names_the_lowest_sample") {  // OPABI-K-003
  Seen seen;
  g_seen = &seen;
  ThreadPool pool(4);
  opabi_kernel descriptor = EnterKernel();
  descriptor.run = FailOnSome;
  Engine engine(Adopted(descriptor), {});
  for (int round = 0; round < 20; round++) {
    auto samples = Numbers(100);
    auto thrown = ThrownBy([&] { RunBatch(engine, OPABI_INT32, samples, pool); });
    CHECK_SAYS(thrown, "at sample 37: bad");
  }
}

TEST_CASE("test_specialize_from_many_threads_is_called_once_a_key") {  // OPABI-H-020
  static std::atomic<int> specialized;
  specialized = 0;
  opabi_kernel descriptor = EnterKernel();
  descriptor.signature = "T[n] -> T[n]";
  descriptor.run = nullptr;
  descriptor.specialize = [](const opabi_specialize *s) -> int32_t {
    specialized++;
    *s->out_run = [](const opabi_call *) -> int32_t { return OPABI_OK; };
    return OPABI_OK;
  };
  std::shared_ptr<Kernel> kernel = Adopted(descriptor);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      Engine engine(kernel, {});
      for (int i = 0; i < 20; i++) {
        RunBatch(engine, (t + i) % 2 ? OPABI_INT32 : OPABI_FLOAT32,
                 {MakeSample<int32_t>({1}, {1})});
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(specialized == 2);
}

}  // namespace
}  // namespace opabi
