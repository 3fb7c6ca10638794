// SPDX-License-Identifier: Apache-2.0
// Checked mode catches what a kernel may not do, and says where.
#include <doctest/doctest.h>

#include "engine_calls.h"
#include "thrown.h"

namespace opabi {
namespace {

struct Spot {
  int32_t *in, *out;
  int64_t n;
  const opabi_call *call;
};

int32_t (*g_misdeed)(const Spot &);

int32_t CopyAndMisbehave(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    Spot spot{static_cast<int32_t *>(call->inputs[s].data),
              static_cast<int32_t *>(call->outputs[s].data), opabi_numel(&call->inputs[s]), call};
    for (int64_t i = 0; i < spot.n; i++) spot.out[i] = spot.in[i];
    if (call->first_sample + s == 1) g_misdeed(spot);
  }
  return OPABI_OK;
}

int32_t WantScratch(const opabi_setup *setup) {
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = 24;
  return OPABI_OK;
}

std::vector<Sample> ThreeSamples() {
  return {MakeSample<int32_t>({4}, {1, 2, 3, 4}), MakeSample<int32_t>({4}, {5, 6, 7, 8}),
          MakeSample<int32_t>({0}, {})};
}

Thrown Misbehaving(uint32_t traits, int32_t (*misdeed)(const Spot &)) {
  g_misdeed = misdeed;
  opabi_kernel descriptor = GoodKernel();
  descriptor.signature = "x: int32[n] -> y: int32[n]";
  descriptor.run = CopyAndMisbehave;
  descriptor.setup = WantScratch;
  descriptor.traits = traits;
  EngineOptions options;
  options.checked = true;
  Engine engine(Adopted(descriptor), options);
  return ThrownBy([&] { RunBatch(engine, OPABI_INT32, ThreeSamples()); });
}

TEST_CASE("test_checked_good_kernel_passes_with_right_values") {
  for (uint32_t traits : {0, static_cast<int>(OPABI_PURE)}) {
    g_misdeed = [](const Spot &) -> int32_t { return 0; };
    opabi_kernel descriptor = GoodKernel();
    descriptor.signature = "int32[n] -> int32[n]";
    descriptor.run = CopyAndMisbehave;
    descriptor.traits = traits;
    EngineOptions options;
    options.checked = true;
    Engine engine(Adopted(descriptor), options);
    auto out = RunBatch(engine, OPABI_INT32, ThreeSamples());
    CHECK(Values<int32_t>(out[1]) == std::vector<int32_t>{5, 6, 7, 8});
  }
}

TEST_CASE("test_checked_write_past_the_end_is_named_with_offset") {  // OPABI-K-022
  auto thrown = Misbehaving(0, [](const Spot &spot) -> int32_t { return spot.out[spot.n] = 77; });
  CHECK(thrown.rule == "OPABI-K-022");
  CHECK_SAYS(thrown, "sample 1");
  CHECK_SAYS(thrown, "output 0 'y' was written past its end, at byte offset 16 of 16");
}

TEST_CASE("test_checked_write_before_the_start_is_named") {  // OPABI-K-022
  auto thrown = Misbehaving(0, [](const Spot &spot) -> int32_t { return spot.out[-1] = 77; });
  CHECK(thrown.rule == "OPABI-K-022");
  CHECK_SAYS(thrown, "before its start");
}

TEST_CASE("test_checked_write_to_an_input_is_named") {  // OPABI-K-021
  auto thrown = Misbehaving(0, [](const Spot &spot) -> int32_t { return spot.in[2] = -1; });
  CHECK(thrown.rule == "OPABI-K-021");
  CHECK_SAYS(thrown, "input 0 'x' was changed at byte offset 8");
}

TEST_CASE("test_checked_scratch_overrun_is_named") {  // OPABI-K-027
  auto thrown = Misbehaving(0, [](const Spot &spot) -> int32_t {
    return static_cast<char *>(spot.call->scratch[OPABI_SCRATCH_HOST])[24] = 1;
  });
  CHECK(thrown.rule == "OPABI-K-027");
}

int32_t WriteHalf(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t n = opabi_numel(&call->inputs[s]);
    for (int64_t i = 0; i < n / 2; i++) {
      static_cast<uint8_t *>(call->outputs[s].data)[i] =
          static_cast<const uint8_t *>(call->inputs[s].data)[i];
    }
  }
  return OPABI_OK;
}

TEST_CASE("test_checked_unwritten_output_is_named_for_pure_and_impure_kernels") {  // OPABI-K-020
  for (uint32_t traits : {0, static_cast<int>(OPABI_PURE)}) {
    opabi_kernel descriptor = GoodKernel();
    descriptor.signature = "uint8[n] -> uint8[n]";
    descriptor.run = WriteHalf;
    descriptor.traits = traits;
    EngineOptions options;
    options.checked = true;
    Engine engine(Adopted(descriptor), options);
    auto thrown = ThrownBy([&] {
      RunBatch(engine, OPABI_UINT8, {MakeSample<uint8_t>({12}, std::vector<uint8_t>(12, 3))});
    });
    CHECK(thrown.rule == "OPABI-K-020");
    CHECK_SAYS(thrown, "not written at byte offset 6");
  }
}

TEST_CASE("test_checked_impure_kernel_runs_once_and_pure_twice") {
  static int calls;
  for (uint32_t traits : {0, static_cast<int>(OPABI_PURE)}) {
    calls = 0;
    opabi_kernel descriptor = GoodKernel();
    descriptor.signature = "int32[n] ->";
    descriptor.run = [](const opabi_call *) -> int32_t {
      return calls++, static_cast<int32_t>(OPABI_OK);
    };
    descriptor.traits = traits;
    EngineOptions options;
    options.checked = true;
    Engine engine(Adopted(descriptor), options);
    RunBatch(engine, OPABI_INT32, ThreeSamples());
    CHECK(calls == (traits ? 6 : 3));
  }
}

TEST_CASE("test_checked_pure_kernel_that_is_not_is_named") {  // OPABI-K-029
  static int32_t counter;
  auto thrown =
      Misbehaving(OPABI_PURE, [](const Spot &spot) -> int32_t { return spot.out[3] = counter++; });
  CHECK(thrown.rule == "OPABI-K-029");
}

}  // namespace
}  // namespace opabi
