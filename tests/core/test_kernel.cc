// SPDX-License-Identifier: Apache-2.0
// A kernel's life: adopted, specialized, released.
#include "core/kernel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "descriptors.h"
#include "thrown.h"

namespace opabi {
namespace {

TypeKey KeyOf(uint32_t dtype, int32_t ndim) { return {{dtype}, {ndim}, 0}; }

// ---- Ownership
// -------------------------------------------------------------------------------------

void AddRelease(void *log) { *static_cast<std::string *>(log) += "release "; }

TEST_CASE("test_adopt_release_then_drop_once_at_the_end") {  // OPABI-H-016
  std::string log;
  opabi_kernel descriptor = GoodKernel();
  descriptor.user_data = &log;
  descriptor.release = AddRelease;
  std::shared_ptr<Kernel> kernel = Kernel::Adopt(&descriptor, [&] { log += "drop "; });
  std::shared_ptr<Kernel> second = kernel;
  kernel.reset();
  CHECK(log == "");
  second.reset();
  CHECK(log == "release drop ");
}

TEST_CASE("test_adopt_without_release_and_drop_ends_well") {
  opabi_kernel descriptor = GoodKernel();
  CHECK_NOTHROW(Kernel::Adopt(&descriptor, nullptr));
}

TEST_CASE("test_adopt_failed_neither_released_nor_dropped") {
  std::string log;
  opabi_kernel descriptor = GoodKernel();
  descriptor.user_data = &log;
  descriptor.release = AddRelease;
  descriptor.run = nullptr;
  auto thrown = ThrownBy([&] { Kernel::Adopt(&descriptor, [&] { log += "drop "; }); });
  CHECK(thrown.rule == "OPABI-D-007");
  CHECK(log == "");
}

TEST_CASE("test_from_library_neither_released_nor_dropped") {
  std::string log;
  opabi_kernel descriptor = GoodKernel();
  descriptor.user_data = &log;
  descriptor.release = AddRelease;
  std::shared_ptr<Kernel> kernel = Kernel::FromLibrary(&descriptor, "mylib");
  CHECK(kernel->name() == "mylib.blur");
  kernel.reset();
  CHECK(log == "");
}

TEST_CASE("test_adopt_descriptor_read_as_its_size_tells") {
  opabi_kernel descriptor = GoodKernel();
  MemoryEnd memory(&descriptor, OPABI_KERNEL_SIZE_1_0);
  std::shared_ptr<Kernel> kernel = Kernel::Adopt(memory.As<opabi_kernel>(), nullptr);
  CHECK(kernel->name() == "blur");
  CHECK(kernel->signature().text() == "image: T[h,w] -> T[h,w]");
  CHECK(!kernel->has_instance());
}

TEST_CASE("test_kernel_traits_told_one_by_one") {
  opabi_kernel descriptor = GoodKernel();
  descriptor.traits = OPABI_PURE;
  descriptor.critical = OPABI_WHOLE_BATCH;
  std::shared_ptr<Kernel> kernel = Kernel::Adopt(&descriptor, nullptr);
  CHECK(kernel->has(OPABI_PURE));
  CHECK(!kernel->has(OPABI_REENTRANT));
  CHECK(kernel->demands(OPABI_WHOLE_BATCH));
  CHECK(!kernel->demands(OPABI_SETUP_READS_DATA));
}

// ---- Specialization
// --------------------------------------------------------------------------------

int32_t RunOther(const opabi_call *) { return OPABI_OK; }

/// What a specialize of the tests does, by the test that set it up.
struct Script {
  std::atomic<int> calls{0};
  std::atomic<int> inside{0}, most_inside{0};
  int32_t status = OPABI_OK;
  const char *message = "";
  opabi_specialize seen{};
  Kernel *kernel = nullptr;  // to call from within
};

Script &ScriptOf(const opabi_specialize *call) { return *static_cast<Script *>(call->user_data); }

int32_t SpecializeByScript(const opabi_specialize *call) {
  Script &script = ScriptOf(call);
  int inside = ++script.inside;
  if (inside > script.most_inside) script.most_inside = inside;
  script.calls++;
  script.seen = *call;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  *call->out_run = RunOther;
  script.inside--;
  if (script.status == OPABI_OK) return OPABI_OK;
  return OPABI_FAIL(call, OPABI_UNSET, script.status, script.message);
}

/// A kernel with one input, one argument if wanted, and this specialize.
struct Specialized {
  Script script;
  opabi_kernel descriptor = GoodKernel();
  std::shared_ptr<Kernel> kernel;

  explicit Specialized(int32_t (*specialize)(const opabi_specialize *) = SpecializeByScript) {
    descriptor.user_data = &script;
    descriptor.specialize = specialize;
    Adopt();
  }
  void Adopt() {
    kernel = Kernel::Adopt(&descriptor, nullptr);
    script.kernel = kernel.get();
  }
};

TEST_CASE("test_specialize_absent_gives_the_descriptors_functions") {
  opabi_kernel descriptor = GoodKernel();
  int user_data;
  descriptor.user_data = &user_data;
  std::shared_ptr<Kernel> kernel = Kernel::Adopt(&descriptor, nullptr);
  const Specialization &functions = kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU);
  CHECK((functions.run == RunNothing));
  CHECK((functions.setup == nullptr));
  CHECK(functions.user_data == &user_data);
}

TEST_CASE("test_specialize_same_key_called_once") {  // OPABI-H-020
  Specialized with;
  const Specialization &first = with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU);
  CHECK((first.run == RunOther));
  CHECK(&with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU) == &first);
  CHECK(with.script.calls == 1);
  for (TypeKey other :
       {KeyOf(OPABI_UINT8, 3), KeyOf(OPABI_INT8, 2), TypeKey{{OPABI_UINT8}, {2}, 1}}) {
    with.kernel->Specialize(other, OPABI_CPU);
  }
  CHECK(with.script.calls == 4);
  CHECK((first.run == RunOther));  // the reference outlives later keys
}

TEST_CASE("test_specialize_sees_types_of_inputs_and_arguments") {
  Specialized with;
  opabi_arg arg{"sigma", nullptr, OPABI_DTYPE_ANY, OPABI_NDIM_ANY, nullptr, 0};
  with.descriptor.args = &arg;
  with.descriptor.n_args = 1;
  with.Adopt();
  TypeKey key{{OPABI_UINT8, OPABI_FLOAT32}, {2, 0}, 3};
  with.kernel->Specialize(key, OPABI_CUDA);
  const opabi_specialize &seen = with.script.seen;
  CHECK(seen.struct_size == sizeof seen);
  CHECK(seen.abi == OPABI_VERSION(1, 0));
  CHECK(seen.n_in == 1);
  CHECK(seen.n_args == 1);
  CHECK(seen.in_dtype[0] == OPABI_UINT8);
  CHECK(seen.in_ndim[0] == 2);
  CHECK(seen.arg_dtype[0] == OPABI_FLOAT32);
  CHECK(seen.arg_ndim[0] == 0);
  CHECK(seen.device_type == OPABI_CUDA);
  CHECK(seen.device_id == 3);
  CHECK(seen.err_cap >= 1024);
}

TEST_CASE("test_specialize_from_many_threads_once_each_and_one_at_a_time") {
  Specialized with;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; i++) {
        const Specialization &functions =
            with.kernel->Specialize(KeyOf(OPABI_UINT8, (t + i) % 4), OPABI_CPU);
        if (functions.run != RunOther) wrong++;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(with.script.calls == 4);
  CHECK(with.script.most_inside == 1);
}

TEST_CASE("test_specialize_failed_tells_why_and_is_tried_again") {
  Specialized with;
  with.script.status = OPABI_ERROR_TYPE;
  with.script.message = "no bool here";
  for (int calls = 1; calls <= 2; calls++) {
    auto thrown = ThrownBy([&] { with.kernel->Specialize(KeyOf(OPABI_BOOL, 2), OPABI_CPU); });
    CHECK(thrown.kind == Kind::kType);
    CHECK_SAYS(thrown, "kernel 'blur', specialize for bool of rank 2 failed");
    CHECK_SAYS(thrown, "no bool here");
    CHECK_SAYS(thrown, "OPABI_ERROR_TYPE");
    CHECK(with.script.calls == calls);
  }
  with.script.status = OPABI_OK;
  CHECK((with.kernel->Specialize(KeyOf(OPABI_BOOL, 2), OPABI_CPU).run == RunOther));
  CHECK(with.script.calls == 3);
}

TEST_CASE("test_specialize_returning_0_refused") {
  Specialized with([](const opabi_specialize *) { return int32_t{0}; });
  auto thrown = ThrownBy([&] { with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU); });
  CHECK(thrown.kind == Kind::kRuntime);
  CHECK(thrown.rule == "OPABI-K-001");
  CHECK_SAYS(thrown, "never reported success");
}

TEST_CASE("test_specialize_message_without_end_or_utf8_cleaned") {
  Specialized with([](const opabi_specialize *call) {
    for (int64_t i = 0; i < call->err_cap; i++) call->err[i] = i % 2 ? 'x' : '\xFF';
    return int32_t{-7};
  });
  auto thrown = ThrownBy([&] { with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU); });
  CHECK(thrown.kind == Kind::kRuntime);
  CHECK_SAYS(thrown, "\xEF\xBF\xBDx\xEF\xBF\xBDx");
  CHECK_SAYS(thrown, "private error -7");
}

TEST_CASE("test_specialize_throwing_named_and_next_call_right") {
  Specialized with([](const opabi_specialize *call) -> int32_t {
    if (ScriptOf(call).calls++ == 0) throw std::runtime_error("escaped");
    return OPABI_OK;
  });
  auto thrown = ThrownBy([&] { with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU); });
  CHECK(thrown.rule == "OPABI-K-004");
  CHECK((with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU).run == RunNothing));
}

TEST_CASE("test_specialize_giving_no_run_refused") {
  Specialized with([](const opabi_specialize *call) -> int32_t {
    *call->out_run = nullptr;
    return OPABI_OK;
  });
  auto thrown = ThrownBy([&] { with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU); });
  CHECK(thrown.rule == "OPABI-D-007");
  CHECK_SAYS(thrown, "run is NULL after specialize for uint8 of rank 2");
}

TEST_CASE("test_specialize_giving_no_setup_refused_where_signature_is_open") {
  Specialized with([](const opabi_specialize *) -> int32_t { return OPABI_OK; });
  with.descriptor.signature = "T[n] -> T[?]";
  with.Adopt();
  auto thrown = ThrownBy([&] { with.kernel->Specialize(KeyOf(OPABI_UINT8, 1), OPABI_CPU); });
  CHECK(thrown.rule == "OPABI-D-008");
  CHECK_SAYS(thrown, "T[n] -> T[?]");
}

TEST_CASE("test_specialize_calling_its_own_kernel_refused_not_hung") {
  Specialized with([](const opabi_specialize *call) -> int32_t {
    auto thrown =
        ThrownBy([&] { ScriptOf(call).kernel->Specialize(KeyOf(OPABI_INT8, 1), OPABI_CPU); });
    CHECK_SAYS(thrown, "calls the kernel itself");
    return OPABI_OK;
  });
  CHECK((with.kernel->Specialize(KeyOf(OPABI_UINT8, 2), OPABI_CPU).run == RunNothing));
}

}  // namespace
}  // namespace opabi
