// SPDX-License-Identifier: Apache-2.0
// The engine on one thread: shapes, setup, statuses, sizes decided by run, state.
#include "core/engine.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "engine_calls.h"
#include "thrown.h"

namespace opabi {
namespace {

opabi_kernel KernelOf(const char *signature, opabi_run_fn run, opabi_setup_fn setup = nullptr) {
  opabi_kernel kernel = GoodKernel();
  kernel.signature = signature;
  kernel.run = run;
  kernel.setup = setup;
  return kernel;
}

Engine MakeEngine(const opabi_kernel &descriptor, EngineOptions options = {}) {
  return Engine(Adopted(descriptor), options);
}

int32_t AddOne(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const auto *x = static_cast<const int32_t *>(call->inputs[s].data);
    auto *y = static_cast<int32_t *>(call->outputs[s].data);
    for (int64_t i = 0; i < opabi_numel(&call->inputs[s]); i++) y[i] = x[i] + 1;
  }
  return OPABI_OK;
}

TEST_CASE("test_run_ragged_and_empty_samples_are_computed") {  // OPABI-H-012
  Engine engine = MakeEngine(KernelOf("int32[...] -> int32[...]", AddOne));
  auto out = RunBatch(engine, OPABI_INT32,
                      {MakeSample<int32_t>({2, 2}, {1, 2, 3, 4}), MakeSample<int32_t>({0, 5}, {}),
                       MakeSample<int32_t>({1, 1}, {9})});
  CHECK(Values<int32_t>(out[0]) == std::vector<int32_t>{2, 3, 4, 5});
  CHECK(out[1].shape == Shape{0, 5});
  CHECK(Values<int32_t>(out[2]) == std::vector<int32_t>{10});
}

TEST_CASE("test_run_batches_of_varying_size_are_computed") {
  Engine engine = MakeEngine(KernelOf("int32[n] -> int32[n]", AddOne));
  for (int n : {3, 1, 7, 2}) {
    auto out = RunBatch(engine, OPABI_INT32, std::vector<Sample>(n, MakeSample<int32_t>({1}, {n})));
    CHECK(out.size() == static_cast<size_t>(n));
    CHECK(Values<int32_t>(out.back()) == std::vector<int32_t>{n + 1});
  }
}

// ---- Setup -----------------------------------------------------------------------------------

int32_t (*g_setup)(const opabi_setup *);
int32_t CallGivenSetup(const opabi_setup *setup) { return g_setup(setup); }

Thrown ThrownBySetup(const char *signature, int32_t (*setup)(const opabi_setup *)) {
  g_setup = setup;
  Engine engine = MakeEngine(KernelOf(signature, AddOne, CallGivenSetup));
  return ThrownBy([&] { RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({2}, {1, 2})}); });
}

TEST_CASE("test_setup_sets_nothing_is_refused") {  // OPABI-K-011
  const auto nothing = [](const opabi_setup *) -> int32_t { return OPABI_OK; };
  auto thrown = ThrownBySetup("int32[n] -> int32[?]", nothing);
  CHECK(thrown.rule == "OPABI-K-011");
  CHECK_SAYS(thrown, "kernel 'blur', output 0, sample 0, dimension 0");
  CHECK(ThrownBySetup("int32[n] -> int32[...?]", nothing).Says("rank"));
  CHECK(ThrownBySetup("int32[n] -> ?[n]", nothing).Says("dtype"));
}

TEST_CASE("test_setup_negative_extent_is_refused") {  // OPABI-H-005
  auto thrown = ThrownBySetup("int32[n] -> int32[?]", [](const opabi_setup *s) -> int32_t {
    s->out_shape[0] = -7;
    return OPABI_OK;
  });
  CHECK(thrown.kind == Kind::kValue);
  CHECK_SAYS(thrown, "-7");
}

TEST_CASE("test_setup_too_large_shape_is_refused_before_allocation") {  // OPABI-H-005
  auto large = ThrownBySetup("int32[n] -> int32[?]", [](const opabi_setup *s) -> int32_t {
    s->out_shape[0] = int64_t{1} << 50;
    return OPABI_OK;
  });
  CHECK(large.kind == Kind::kMemory);
  CHECK_SAYS(large, "Nothing was allocated");
  auto overflow = ThrownBySetup("int32[n] -> int32[?,?]", [](const opabi_setup *s) -> int32_t {
    s->out_shape[0] = s->out_shape[1] = int64_t{1} << 33;
    return OPABI_OK;
  });
  CHECK(overflow.kind == Kind::kMemory);
}

TEST_CASE("test_setup_wrong_rank_or_dtype_is_refused") {  // OPABI-K-011
  CHECK(ThrownBySetup("int32[n] -> int32[...?]", [](const opabi_setup *s) -> int32_t {
          s->out_ndim[0] = 16;
          return OPABI_OK;
        }).Says("rank of 0 to 15"));
  CHECK(ThrownBySetup("int32[n] -> ?[n]", [](const opabi_setup *s) -> int32_t {
          s->out_dtype[0] = 12345;
          return OPABI_OK;
        }).Says("no element type"));
}

TEST_CASE("test_setup_changes_what_the_signature_fixes_is_refused") {  // OPABI-K-012
  auto thrown = ThrownBySetup("int32[n] -> int32[n]", [](const opabi_setup *s) -> int32_t {
    s->out_shape[0] = 3;
    return OPABI_OK;
  });
  CHECK(thrown.rule == "OPABI-K-012");
  CHECK_SAYS(thrown, "Expected 2, found 3");
}

TEST_CASE("test_setup_layout_that_does_not_fit_is_refused") {  // OPABI-K-013
  auto thrown = ThrownBySetup("int32[n] -> int32[n]", [](const opabi_setup *s) -> int32_t {
    s->out_layout[0] = 'H';
    s->out_layout[1] = 'W';
    return OPABI_OK;
  });
  CHECK(thrown.rule == "OPABI-K-013");
}

TEST_CASE("test_setup_failure_names_the_sample") {  // OPABI-K-003
  auto thrown = ThrownBySetup("int32[n] -> int32[?]", [](const opabi_setup *s) -> int32_t {
    return OPABI_FAIL(s, 0, OPABI_ERROR_INDEX, "label 12 of 10");
  });
  CHECK(thrown.kind == Kind::kIndex);
  CHECK_SAYS(thrown, "setup failed at sample 0: label 12 of 10");
}

// ---- Statuses --------------------------------------------------------------------------------

int32_t g_status;
int32_t ReturnStatus(const opabi_call *) { return g_status; }

TEST_CASE("test_run_status_other_than_ok_throws_its_kind") {  // OPABI-H-007 OPABI-K-001
  struct Expected {
    int32_t status;
    Kind kind;
    const char *rule;
  };
  for (const Expected &expected :
       std::initializer_list<Expected>{{0, Kind::kRuntime, "OPABI-K-001"},
                                       {808464432, Kind::kRuntime, "OPABI-K-001"},
                                       {-5, Kind::kRuntime, ""},
                                       {OPABI_ERROR_VALUE, Kind::kValue, ""},
                                       {OPABI_ERROR_TYPE, Kind::kType, ""},
                                       {OPABI_ERROR_INDEX, Kind::kIndex, ""},
                                       {OPABI_ERROR_OUT_OF_MEMORY, Kind::kMemory, ""},
                                       {OPABI_ERROR_INTERNAL, Kind::kRuntime, ""}}) {
    g_status = expected.status;
    Engine engine = MakeEngine(KernelOf("int32[n] -> int32[n]", ReturnStatus));
    auto thrown = ThrownBy([&] { RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {1})}); });
    INFO(thrown.what);
    CHECK(thrown.kind == expected.kind);
    CHECK(thrown.rule == expected.rule);
    CHECK(thrown.Says("kernel 'blur' failed at sample 0"));
  }
}

int32_t WriteWildMessage(const opabi_call *call) {
  for (int64_t i = 0; i < call->err_cap; i++) call->err[i] = static_cast<char>(0xFF);
  call->err_where[OPABI_WHERE_SAMPLE] = 1 << 20;
  call->err_where[OPABI_WHERE_INPUT] = -9;
  call->err_where[OPABI_WHERE_OUTPUT] = 99;
  return OPABI_ERROR_VALUE;
}

TEST_CASE("test_run_wild_message_is_bounded_and_cleaned") {  // OPABI-H-008
  Engine engine = MakeEngine(KernelOf("int32[n] -> int32[n]", WriteWildMessage));
  auto thrown = ThrownBy([&] {
    RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {1}), MakeSample<int32_t>({1}, {1})});
  });
  CHECK_SAYS(thrown, "one of the samples 0 to 1");
  CHECK(thrown.what.size() < 4096);
}

int32_t Throw(const opabi_call *) { throw std::runtime_error("escaped"); }

TEST_CASE("test_run_exception_that_leaves_the_kernel_is_reported") {  // OPABI-K-004
  Engine engine = MakeEngine(KernelOf("int32[n] -> int32[n]", Throw));
  auto thrown = ThrownBy([&] { RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {1})}); });
  CHECK(thrown.rule == "OPABI-K-004");
}

TEST_CASE("test_run_after_a_failure_is_right") {
  static bool fail;
  Engine engine =
      MakeEngine(KernelOf("int32[n] -> int32[n]", [](const opabi_call *call) -> int32_t {
        return fail ? OPABI_FAIL(call, 0, OPABI_ERROR_VALUE, "no") : AddOne(call);
      }));
  for (bool now : {false, true, false, true, false}) {
    fail = now;
    if (now) {
      ThrownBy([&] { RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {4})}); });
    } else {
      CHECK(Values<int32_t>(RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {4})})[0])[0] ==
            5);
    }
  }
}

// ---- Sizes decided by run --------------------------------------------------------------------

int64_t g_actual;  // what KeepPositive reports instead of the truth, unless -1
int32_t KeepPositive(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const auto *x = static_cast<const int32_t *>(call->inputs[s].data);
    auto *y = static_cast<int32_t *>(call->outputs[s].data);
    int64_t n = 0;
    for (int64_t i = 0; i < call->inputs[s].shape[0]; i++) {
      if (x[i] > 0) y[n++] = x[i];
    }
    if (g_actual != -2) call->out_actual[s * call->max_ndim] = g_actual == -1 ? n : g_actual;
  }
  return OPABI_OK;
}

TEST_CASE("test_bounded_output_has_its_actual_shape") {  // OPABI-K-028
  g_actual = -1;
  Engine engine = MakeEngine(KernelOf("int32[n] -> int32[<=n]", KeepPositive));
  auto out = RunBatch(engine, OPABI_INT32,
                      {MakeSample<int32_t>({4}, {1, -2, 3, -4}), MakeSample<int32_t>({0}, {}),
                       MakeSample<int32_t>({1}, {-1})});
  CHECK(Values<int32_t>(out[0]) == std::vector<int32_t>{1, 3});
  CHECK(out[1].shape == Shape{0});
  CHECK(out[2].shape == Shape{0});
}

TEST_CASE("test_bounded_output_beyond_its_bound_is_refused") {  // OPABI-H-006
  for (int64_t actual : {int64_t{5}, int64_t{-3}, int64_t{1} << 40, int64_t{-2}}) {
    g_actual = actual;
    for (bool checked : {false, true}) {
      EngineOptions options;
      options.checked = checked;
      Engine engine = MakeEngine(KernelOf("int32[n] -> int32[<=n]", KeepPositive), options);
      auto thrown = ThrownBy(
          [&] { RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({4}, {1, 2, 3, 4})}); });
      CHECK(thrown.rule == "OPABI-K-028");
    }
  }
}

// ---- State, scratch, whole batches -----------------------------------------------------------

struct Counts {
  int created = 0, destroyed = 0, calls = 0;
  int64_t samples = 0;
};

int32_t Create(const opabi_create *create) {
  auto *counts = static_cast<Counts *>(create->user_data);
  counts->created++;
  *create->out_instance = counts;
  return OPABI_OK;
}
void Destroy(void *, void *instance) { static_cast<Counts *>(instance)->destroyed++; }
int32_t Count(const opabi_call *call) {
  auto *counts = static_cast<Counts *>(call->instance);
  counts->calls++;
  counts->samples += call->n_samples;
  return OPABI_OK;
}

TEST_CASE("test_instance_is_created_and_destroyed_once") {  // OPABI-H-023
  Counts counts;
  opabi_kernel descriptor = KernelOf("int32[n] ->", Count);
  descriptor.user_data = &counts;
  descriptor.create = Create;
  descriptor.destroy = Destroy;
  {
    Engine engine = MakeEngine(descriptor);
    RunBatch(engine, OPABI_INT32, std::vector<Sample>(5, MakeSample<int32_t>({1}, {1})));
    CHECK(counts.samples == 5);
    CHECK(counts.destroyed == 0);
  }
  CHECK(counts.created == 1);
  CHECK(counts.destroyed == 1);
}

TEST_CASE("test_instance_whose_create_fails_is_not_destroyed") {  // OPABI-K-035
  Counts counts;
  opabi_kernel descriptor = KernelOf("int32[n] ->", Count);
  descriptor.user_data = &counts;
  descriptor.create = [](const opabi_create *create) -> int32_t {
    return OPABI_FAIL(create, OPABI_UNSET, OPABI_ERROR_OUT_OF_MEMORY, "too big");
  };
  descriptor.destroy = [](void *user_data, void *) {
    static_cast<Counts *>(user_data)->destroyed++;
  };
  auto thrown = ThrownBy([&] { MakeEngine(descriptor); });
  CHECK(thrown.kind == Kind::kMemory);
  CHECK_SAYS(thrown, "create failed: too big");
  CHECK(counts.destroyed == 0);
}

TEST_CASE("test_scratch_is_aligned_and_as_large_as_asked") {  // OPABI-H-015
  g_setup = [](const opabi_setup *setup) -> int32_t {
    setup->scratch_bytes[OPABI_SCRATCH_HOST] = 1000;
    return OPABI_OK;
  };
  Engine engine = MakeEngine(KernelOf(
      "int32[n] -> int32[n]",
      [](const opabi_call *call) -> int32_t {
        auto *scratch = static_cast<char *>(call->scratch[OPABI_SCRATCH_HOST]);
        if (reinterpret_cast<uintptr_t>(scratch) % 256 || call->scratch_bytes[0] < 1000)
          return OPABI_ERROR_ABI;
        std::memset(scratch, 0x5A, 1000);
        return AddOne(call);
      },
      CallGivenSetup));
  CHECK(Values<int32_t>(RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {1})})[0])[0] == 2);
}

TEST_CASE("test_scratch_that_cannot_be_is_refused") {  // OPABI-K-027
  for (int kind : {OPABI_SCRATCH_HOST, OPABI_SCRATCH_DEVICE, OPABI_SCRATCH_PINNED}) {
    static int which;
    which = kind;
    g_setup = [](const opabi_setup *setup) -> int32_t {
      setup->scratch_bytes[which] = which == OPABI_SCRATCH_HOST ? -1 : 16;
      return OPABI_OK;
    };
    Engine engine = MakeEngine(KernelOf("int32[n] -> int32[n]", AddOne, CallGivenSetup));
    auto thrown = ThrownBy([&] { RunBatch(engine, OPABI_INT32, {MakeSample<int32_t>({1}, {1})}); });
    CHECK(thrown.rule == "OPABI-K-027");
  }
}

// ---- Inputs ----------------------------------------------------------------------------------

TEST_CASE("test_setup_input_on_the_gpu_is_refused_for_a_cpu_kernel") {  // OPABI-H-002
  Engine engine = MakeEngine(KernelOf("int32[n] -> int32[n]", AddOne));
  engine.Begin(1);
  PortInfo info;
  info.dtype = OPABI_INT32;
  info.ndim = 1;
  info.device_type = OPABI_CUDA;
  engine.DescribeInput(0, info);
  const int64_t shape[] = {1};
  engine.SetInput(0, 0, nullptr, shape);
  CHECK(ThrownBy([&] { engine.Setup(); }).Says("on the GPU"));
}

TEST_CASE("test_setup_layout_other_than_declared_is_refused") {  // OPABI-H-014
  Engine engine = MakeEngine(KernelOf("T[h,w,c]@HWC -> T[c,h,w]@CHW", AddOne));
  const int64_t shape[] = {2, 3, 1};
  for (const char *layout : {"CHW", "HWC", ""}) {
    engine.Begin(1);
    PortInfo info;
    info.dtype = OPABI_INT32;
    info.ndim = 3;
    info.layout = layout;
    engine.DescribeInput(0, info);
    engine.SetInput(0, 0, nullptr, shape);
    if (std::string(layout) == "CHW") {
      CHECK(ThrownBy([&] { engine.Setup(); }).rule == "OPABI-H-014");
    } else {
      engine.Setup();
      CHECK(engine.output(0).layout == "CHW");
      CHECK(engine.shape(0, 0)[0] == 1);
    }
  }
}

}  // namespace
}  // namespace opabi
