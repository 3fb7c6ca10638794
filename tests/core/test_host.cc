// SPDX-License-Identifier: Apache-2.0
// The engine as a host: kernels that look closely at what they are given. A kernel notes each breach of a
// rule of kind H; a test shows the list, which must be empty.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/dtype.h"
#include "core/engine.h"
#include "descriptors.h"
#include "thrown.h"

namespace opabi {
namespace {

constexpr uint32_t kVersion = OPABI_VERSION(OPABI_MAJOR, OPABI_MINOR);

/// What a watching kernel has seen.
struct Watch {
  std::mutex mutex;
  std::set<std::string> breaches;
  std::vector<int> times;            // each sample of the batch was run so often
  std::vector<int64_t> range_sizes;  // of run
  std::string order;                 // one letter a call
  int running = 0, most_running = 0;
  int64_t asked_scratch = 0;
  int32_t status = OPABI_OK;  // what run returns for `failing`
  int64_t failing = -1;
  int slow_ms = 0;

  void Note(bool fine, const char *breach) {
    if (fine) return;
    std::lock_guard<std::mutex> lock(mutex);
    breaches.insert(breach);
  }
  void Called(char letter) {
    std::lock_guard<std::mutex> lock(mutex);
    order += letter;
  }
};

/// As the profile of section 2.3 says, for host memory.
void Look(Watch *watch, const opabi_tensor &tensor) {
  watch->Note(IsDtype(tensor.dtype), "dtype");
  watch->Note(tensor.ndim >= 0 && tensor.ndim <= OPABI_MAX_NDIM, "rank");
  watch->Note(tensor.device_type == OPABI_CPU, "device");
  watch->Note(tensor.byte_offset == 0, "byte_offset");
  watch->Note(tensor.ndim == 0 || (tensor.shape && tensor.strides), "shape or strides NULL");
  if (tensor.ndim && !(tensor.shape && tensor.strides)) return;
  int64_t elements = 1;
  for (int32_t d = tensor.ndim - 1; d >= 0; d--) {
    watch->Note(tensor.strides[d] == elements, "strides");
    watch->Note(tensor.shape[d] >= 0, "negative extent");
    elements *= tensor.shape[d];
  }
  if (elements == 0) return;
  watch->Note(tensor.data != nullptr, "data NULL");
  watch->Note(reinterpret_cast<uintptr_t>(tensor.data) % DtypeSize(tensor.dtype) == 0, "alignment");
}

template <typename Struct>
void LookAtHead(Watch *watch, const Struct *s) {
  watch->Note(s->struct_size == sizeof *s, "struct_size");
  watch->Note(s->abi == kVersion, "abi");
  watch->Note(s->err && s->err_cap > 0 && s->err[0] == 0, "err is not \"\"");
  for (int i = 0; i < 4; i++) watch->Note(s->err_where[i] == OPABI_UNSET, "err_where");
}

template <typename Struct>
void LookAtPorts(Watch *watch, const Struct *s) {
  LookAtHead(watch, s);
  watch->Note(s->n_samples >= 1 && s->first_sample >= 0, "range");
  watch->Note(s->first_sample + s->n_samples <= s->batch_size, "range");
  for (int64_t i = 0; i < s->n_samples * s->n_in; i++) {
    Look(watch, s->inputs[i]);
    watch->Note(s->inputs[i].dtype == s->inputs[i % s->n_in].dtype, "two dtypes in a port");
    watch->Note(s->inputs[i].ndim == s->inputs[i % s->n_in].ndim, "two ranks in a port");
  }
  for (int64_t i = 0; i < s->n_samples * s->n_args; i++) Look(watch, s->args[i]);
  for (int32_t port = 0; port < s->n_in; port++)
    watch->Note(s->in_layouts[port] != nullptr, "layout NULL");
}

struct Bytes {
  const char *begin, *end;
  bool Overlaps(const Bytes &other) const { return begin < other.end && other.begin < end; }
};

void LookForOverlaps(Watch *watch, const opabi_call *call) {
  std::vector<Bytes> writable, readable;
  const auto add = [](std::vector<Bytes> *to, const void *data, int64_t bytes) {
    const char *begin = static_cast<const char *>(data);
    if (bytes) to->push_back({begin, begin + bytes});
  };
  const auto tensors = [&](std::vector<Bytes> *to, const opabi_tensor *table, int64_t n) {
    for (int64_t i = 0; i < n; i++)
      add(to, table[i].data, opabi_numel(&table[i]) * DtypeSize(table[i].dtype));
  };
  tensors(&writable, call->outputs, call->n_samples * call->n_out);
  add(&writable, call->scratch[OPABI_SCRATCH_HOST], call->scratch_bytes[OPABI_SCRATCH_HOST]);
  tensors(&readable, call->inputs, call->n_samples * call->n_in);
  tensors(&readable, call->args, call->n_samples * call->n_args);
  for (size_t i = 0; i < writable.size(); i++) {
    for (size_t j = 0; j < i; j++)
      watch->Note(!writable[i].Overlaps(writable[j]), "outputs or scratch overlap");
    for (const Bytes &other : readable)
      watch->Note(!writable[i].Overlaps(other), "an output overlaps an input");
  }
}

int32_t WatchRun(const opabi_call *call) {
  Watch *watch = static_cast<Watch *>(call->user_data);
  watch->Called('r');
  LookAtPorts(watch, call);
  for (int64_t i = 0; i < call->n_samples * call->n_out; i++) Look(watch, call->outputs[i]);
  for (int32_t port = 0; port < call->n_out; port++)
    watch->Note(call->out_layouts[port] != nullptr, "layout NULL");
  watch->Note(call->reserved == 0, "reserved");
  watch->Note(call->device_type == OPABI_CPU && call->device_id == 0, "device");
  watch->Note(!call->stream && !call->device_inputs && !call->device_outputs && !call->device_args,
              "device fields");
  const void *scratch = call->scratch[OPABI_SCRATCH_HOST];
  watch->Note(call->scratch_bytes[OPABI_SCRATCH_HOST] >= watch->asked_scratch,
              "scratch is too small");
  watch->Note(!watch->asked_scratch || scratch, "scratch is NULL");
  watch->Note(watch->asked_scratch || !scratch, "scratch that nobody asked for");
  watch->Note(reinterpret_cast<uintptr_t>(scratch) % 256 == 0, "scratch alignment");
  watch->Note(!call->scratch[OPABI_SCRATCH_DEVICE] && !call->scratch[OPABI_SCRATCH_PINNED],
              "scratch of other kinds");
  LookForOverlaps(watch, call);
  static std::mutex mutex;
  static std::set<std::pair<const void *, int32_t>> busy_workers;
  static std::set<const void *> busy_scratch;
  {
    std::lock_guard<std::mutex> lock(mutex);
    watch->Note(call->worker >= 0 && busy_workers.insert({watch, call->worker}).second,
                "worker is shared");
    watch->Note(!scratch || busy_scratch.insert(scratch).second, "scratch is shared");
  }
  {
    std::lock_guard<std::mutex> lock(watch->mutex);
    watch->most_running = std::max(watch->most_running, ++watch->running);
    watch->range_sizes.push_back(call->n_samples);
    watch->times.resize(std::max<size_t>(watch->times.size(), call->batch_size));
    for (int64_t s = 0; s < call->n_samples; s++) watch->times[call->first_sample + s]++;
  }
  if (scratch)
    std::memset(call->scratch[OPABI_SCRATCH_HOST], 0xA5, call->scratch_bytes[OPABI_SCRATCH_HOST]);
  for (int64_t s = 0; s < call->n_samples; s++) {
    if (watch->slow_ms) std::this_thread::sleep_for(std::chrono::milliseconds(watch->slow_ms));
    for (int32_t port = 0; port < call->n_out; port++) {
      const opabi_tensor &out = call->outputs[s * call->n_out + port];
      std::memset(out.data, 1, opabi_numel(&out) * DtypeSize(out.dtype));
    }
  }
  std::lock_guard<std::mutex> lock(mutex);
  busy_workers.erase({watch, call->worker});
  busy_scratch.erase(scratch);
  std::lock_guard<std::mutex> also(watch->mutex);
  watch->running--;
  const int64_t failing = watch->failing - call->first_sample;
  if (failing < 0 || failing >= call->n_samples) return OPABI_OK;
  return OPABI_FAIL(call, failing, watch->status, "no face");
}

int32_t WatchSetup(const opabi_setup *setup) {
  Watch *watch = static_cast<Watch *>(setup->user_data);
  watch->Called('s');
  LookAtPorts(watch, setup);
  for (int i = 0; i < 3; i++) watch->Note(setup->scratch_bytes[i] == 0, "scratch_bytes");
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = watch->asked_scratch;
  return OPABI_OK;
}

int32_t WatchCreate(const opabi_create *create) {
  Watch *watch = static_cast<Watch *>(create->user_data);
  watch->Called('c');
  LookAtHead(watch, create);
  watch->Note(*create->out_instance == nullptr, "out_instance");
  watch->Note(create->n_workers >= 1 && create->max_batch >= 0, "create");
  *create->out_instance = watch;
  return OPABI_OK;
}
int32_t FailCreate(const opabi_create *create) {
  static_cast<Watch *>(create->user_data)->Called('c');
  return OPABI_FAIL(create, OPABI_UNSET, OPABI_ERROR_VALUE, "no model");
}
void WatchDestroy(void *user_data, void *instance) {
  Watch *watch = static_cast<Watch *>(user_data);
  watch->Called('d');
  watch->Note(instance == watch, "another instance");
}
void WatchRelease(void *user_data) { static_cast<Watch *>(user_data)->Called('x'); }

int32_t WatchSpecialize(const opabi_specialize *specialize) {
  Watch *watch = static_cast<Watch *>(specialize->user_data);
  watch->Called('z');
  LookAtHead(watch, specialize);
  watch->Note(*specialize->out_run == WatchRun && *specialize->out_setup == WatchSetup,
              "specialize's prefill");
  watch->Note(*specialize->out_user_data == watch, "specialize's prefill");
  return OPABI_OK;
}

opabi_kernel WatchingKernel(Watch *watch, const char *signature) {
  opabi_kernel kernel = GoodKernel();
  kernel.name = "watch";
  kernel.signature = signature;
  kernel.user_data = watch;
  kernel.run = WatchRun;
  return kernel;
}

/// A batch of one float32 port, in and out; sample s has shape (s % 4, 3).
class Batch {
 public:
  explicit Batch(Engine *engine) : engine_(*engine) {}

  void Setup(int64_t n) {
    shapes_.resize(2 * n);
    data_.assign(static_cast<size_t>(n) * 12, 0.5f);
    out_.assign(static_cast<size_t>(n) * 12, 0.0f);
    engine_.Begin(n);
    PortInfo info;
    info.dtype = OPABI_FLOAT32;
    info.ndim = 2;
    engine_.DescribeInput(0, info);
    for (int64_t s = 0; s < n; s++) {
      shapes_[2 * s] = s % 4;
      shapes_[2 * s + 1] = 3;
      engine_.SetInput(s, 0, data_.data() + 12 * s, &shapes_[2 * s]);
    }
    engine_.Setup();
    for (int64_t s = 0; s < n; s++) engine_.SetOutput(s, 0, out_.data() + 12 * s);
  }
  void Run(int64_t n, Pool *pool) {
    Setup(n);
    RunContext context;
    context.pool = pool;
    engine_.Run(context);
  }

 private:
  Engine &engine_;
  std::vector<int64_t> shapes_;
  std::vector<float> data_, out_;
};

std::string Text(const std::set<std::string> &breaches) {
  std::string text;
  for (const std::string &breach : breaches) text += breach + "; ";
  return text;
}

void CheckNoBreach(const Watch &watch) { CHECK(Text(watch.breaches) == ""); }

// ---- Structs and tensors ---------------------------------------------------------------------------

TEST_CASE(
    "test_call_structs_are_as_the_header_says") {  // OPABI-H-002 OPABI-H-003 OPABI-H-009 OPABI-H-024 OPABI-H-025
  Watch watch;
  watch.asked_scratch = 1000;
  opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
  descriptor.create = WatchCreate;
  descriptor.destroy = WatchDestroy;
  descriptor.setup = WatchSetup;
  descriptor.specialize = WatchSpecialize;
  {
    EngineOptions options;
    options.n_workers = 3;
    Engine engine(Kernel::Adopt(&descriptor, nullptr), options);
    ThreadPool pool(3);
    for (int64_t n : {1, 2, 7, 100}) Batch(&engine).Run(n, &pool);
  }
  CheckNoBreach(watch);
}

int32_t SeesSentinels(const opabi_setup *setup) {
  Watch *watch = static_cast<Watch *>(setup->user_data);
  // float32[h, <=h, ?], ?[w]@W, T[...?]
  watch->Note(setup->out_dtype[0] == OPABI_FLOAT32 && setup->out_ndim[0] == 3, "filled slots");
  watch->Note(setup->out_dtype[1] == OPABI_DTYPE_UNSET && setup->out_ndim[1] == 1, "open dtype");
  watch->Note(setup->out_dtype[2] == OPABI_FLOAT32 && setup->out_ndim[2] == OPABI_UNSET,
              "open rank");
  watch->Note(setup->max_ndim == OPABI_MAX_NDIM, "max_ndim");
  for (int64_t s = 0; s < setup->n_samples; s++) {
    const opabi_tensor &in = setup->inputs[s];
    const auto row = [&](int port) {
      return setup->out_shape + (s * setup->n_out + port) * setup->max_ndim;
    };
    watch->Note(row(0)[0] == in.shape[0] && row(0)[1] == in.shape[0] && row(0)[2] == OPABI_UNSET,
                "extents");
    watch->Note(row(1)[0] == in.shape[1], "extents");
    for (int d = 0; d < OPABI_MAX_NDIM; d++)
      watch->Note(row(2)[d] == OPABI_UNSET, "extents of an open rank");
    row(0)[2] = 2;
  }
  watch->Note(std::strcmp(setup->out_layout, "") == 0, "layout of no input");
  watch->Note(std::strcmp(setup->out_layout + OPABI_LAYOUT_SIZE, "W") == 0,
              "layout of the signature");
  setup->out_dtype[1] = OPABI_UINT8;
  setup->out_ndim[2] = 0;
  return OPABI_OK;
}

int32_t SeesActualShapes(const opabi_call *call) {
  Watch *watch = static_cast<Watch *>(call->user_data);
  for (int64_t s = 0; s < call->n_samples; s++) {
    int64_t *actual = call->out_actual + s * call->n_out * call->max_ndim;
    const int64_t *shape = call->outputs[s * call->n_out].shape;
    watch->Note(actual[0] == shape[0] && actual[2] == shape[2], "extents that are not bounded");
    watch->Note(actual[1] == OPABI_UNSET, "bounded extent");
    watch->Note(actual[call->max_ndim] == call->outputs[s * call->n_out + 1].shape[0],
                "another port's extents");
    actual[1] = 0;
  }
  return OPABI_OK;
}

TEST_CASE("test_slots_are_prefilled_by_the_signature_or_with_sentinels") {  // OPABI-H-025
  Watch watch;
  opabi_kernel descriptor =
      WatchingKernel(&watch, "float32[h,w] -> float32[h,<=h,?], ?[w]@W, float32[...?]");
  descriptor.setup = SeesSentinels;
  descriptor.run = SeesActualShapes;
  Engine engine(Kernel::Adopt(&descriptor, nullptr), {});
  Batch batch(&engine);
  batch.Setup(5);
  std::vector<char> memory(5 * 64);
  for (int64_t s = 0; s < 5; s++) {
    engine.SetOutput(s, 1, memory.data() + 64 * s);
    engine.SetOutput(s, 2, memory.data() + 64 * s + 32);
  }
  InlinePool pool;
  RunContext context;
  context.pool = &pool;
  engine.Run(context);
  CheckNoBreach(watch);
}

// ---- Ranges and threads ----------------------------------------------------------------------------

TEST_CASE("test_batch_every_sample_is_run_once") {  // OPABI-H-012 OPABI-H-015 OPABI-H-027
  for (int threads : {1, 2, 4}) {
    for (int slow_ms : {0, 1}) {
      Watch watch;
      watch.asked_scratch = 64;
      watch.slow_ms = slow_ms;
      opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
      descriptor.setup = WatchSetup;
      EngineOptions options;
      options.n_workers = threads;
      Engine engine(Kernel::Adopt(&descriptor, nullptr), options);
      ThreadPool pool(threads);
      Batch batch(&engine);
      for (int64_t n : {1, 3, 33, 8}) {
        watch.times.clear();
        batch.Run(n, &pool);
        CHECK(watch.times == std::vector<int>(n, 1));
      }
      CheckNoBreach(watch);
    }
  }
}

TEST_CASE("test_batch_without_samples_is_not_run") {  // OPABI-H-012
  Watch watch;
  opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
  descriptor.setup = WatchSetup;
  Engine engine(Kernel::Adopt(&descriptor, nullptr), {});
  ThreadPool pool(2);
  Batch batch(&engine);
  batch.Run(0, &pool);
  CHECK(watch.order == "");
  batch.Run(2, &pool);
  CHECK(watch.times == std::vector<int>{1, 1});
}

TEST_CASE("test_whole_batch_comes_in_one_call") {  // OPABI-H-010
  Watch watch;
  watch.slow_ms = 1;
  opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
  descriptor.critical = OPABI_WHOLE_BATCH;
  Engine engine(Kernel::Adopt(&descriptor, nullptr), {});
  ThreadPool pool(4);
  Batch batch(&engine);
  for (int64_t n : {37, 1, 64}) batch.Run(n, &pool);
  CHECK(watch.range_sizes == std::vector<int64_t>{37, 1, 64});
}

TEST_CASE("test_instance_calls_do_not_overlap_unless_reentrant") {  // OPABI-H-011
  for (uint32_t traits : {0u, static_cast<uint32_t>(OPABI_REENTRANT)}) {
    Watch watch;
    watch.slow_ms = 2;
    opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
    descriptor.traits = traits;
    descriptor.create = WatchCreate;
    descriptor.destroy = WatchDestroy;
    EngineOptions options;
    options.n_workers = 4;
    Engine engine(Kernel::Adopt(&descriptor, nullptr), options);
    ThreadPool pool(4);
    Batch(&engine).Run(32, &pool);
    if (traits) {
      CHECK(watch.most_running > 1);
    } else {
      CHECK(watch.most_running == 1);
    }
    CheckNoBreach(watch);
  }
}

// ---- Life ------------------------------------------------------------------------------------------

TEST_CASE("test_life_runs_in_its_order") {  // OPABI-H-023 OPABI-H-020
  Watch watch;
  opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
  descriptor.create = WatchCreate;
  descriptor.destroy = WatchDestroy;
  descriptor.setup = WatchSetup;
  descriptor.specialize = WatchSpecialize;
  descriptor.release = WatchRelease;
  InlinePool pool;
  {
    std::shared_ptr<Kernel> kernel = Kernel::Adopt(&descriptor, nullptr);
    Engine first(kernel, {});
    Batch(&first).Run(2, &pool);
    Batch(&first).Run(3, &pool);
    Engine second(std::move(kernel), {});
    Batch(&second).Run(2, &pool);
  }
  CHECK(watch.order ==
        "czsrsr"
        "csr"
        "ddx");
  CheckNoBreach(watch);
}

TEST_CASE("test_create_failed_is_not_destroyed") {  // OPABI-H-023
  Watch watch;
  opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
  descriptor.create = FailCreate;
  descriptor.destroy = WatchDestroy;
  descriptor.release = WatchRelease;
  auto thrown = ThrownBy([&] { Engine engine(Kernel::Adopt(&descriptor, nullptr), {}); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK_SAYS(thrown, "'watch'");
  CHECK_SAYS(thrown, "create");
  CHECK_SAYS(thrown, "no model");
  CHECK(watch.order == "cx");
}

TEST_CASE("test_failure_ends_the_batch_and_the_next_is_right") {  // OPABI-H-008 OPABI-H-028
  for (int threads : {1, 4}) {
    Watch watch;
    watch.slow_ms = 1;
    watch.status = OPABI_ERROR_VALUE;
    watch.failing = 21;
    opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
    EngineOptions options;
    options.n_workers = threads;
    Engine engine(Kernel::Adopt(&descriptor, nullptr), options);
    ThreadPool pool(threads);
    Batch batch(&engine);
    auto thrown = ThrownBy([&] { batch.Run(32, &pool); });
    CHECK(thrown.kind == Kind::kValue);
    CHECK_SAYS(thrown, "'watch'");
    CHECK_SAYS(thrown, "sample 21");
    CHECK_SAYS(thrown, "no face");
    CHECK(watch.running == 0);
    watch.failing = -1;
    watch.times.clear();
    batch.Run(32, &pool);
    CHECK(watch.times == std::vector<int>(32, 1));
    CheckNoBreach(watch);
  }
}

TEST_CASE("test_status_any_but_ok_is_a_failure") {  // OPABI-H-007 OPABI-K-001
  for (int32_t status : {0, 1, 7, 8, 9, -1, -2000000000, 0x600C, 2000000000}) {
    Watch watch;
    watch.status = status;
    watch.failing = 0;
    opabi_kernel descriptor = WatchingKernel(&watch, "T[h,w] -> T[h,w]");
    Engine engine(Kernel::Adopt(&descriptor, nullptr), {});
    InlinePool pool;
    auto thrown = ThrownBy([&] { Batch(&engine).Run(1, &pool); });
    CHECK_SAYS(thrown, "'watch'");
    CHECK_SAYS(thrown, "no face");
    const bool unreported = status == 0 || status > OPABI_ERROR_ABI;
    CHECK(thrown.rule == (unreported ? "OPABI-K-001" : ""));
  }
}

int32_t CountsAbove(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    const opabi_tensor &in = setup->inputs[s];
    int64_t count = 0;
    for (int64_t i = 0; i < opabi_numel(&in); i++)
      count += static_cast<const float *>(in.data)[i] > 0.25f;
    setup->out_shape[s * setup->max_ndim] = count;
  }
  return OPABI_OK;
}

TEST_CASE("test_setup_that_reads_data_finds_it") {  // OPABI-H-031
  Watch watch;
  opabi_kernel descriptor = WatchingKernel(&watch, "float32[h,w] -> float32[?]");
  descriptor.critical = OPABI_SETUP_READS_DATA;
  descriptor.setup = CountsAbove;
  Engine engine(Kernel::Adopt(&descriptor, nullptr), {});
  Batch batch(&engine);
  batch.Setup(4);
  for (int64_t s = 0; s < 4; s++) CHECK(engine.shape(s, 0)[0] == 3 * s);
}

TEST_CASE("test_input_layout_of_the_signature_is_given_or_demanded") {  // OPABI-H-014
  Watch watch;
  opabi_kernel descriptor = WatchingKernel(&watch, "float32[h,w]@HW -> float32[h,w]");
  Engine engine(Kernel::Adopt(&descriptor, nullptr), {});
  const int64_t shape[2] = {1, 1};
  float value = 1;
  for (const char *layout : {"", "HW", "WH"}) {
    engine.Begin(1);
    PortInfo info;
    info.dtype = OPABI_FLOAT32;
    info.ndim = 2;
    info.layout = layout;
    engine.DescribeInput(0, info);
    engine.SetInput(0, 0, &value, shape);
    if (std::strcmp(layout, "WH") != 0) {
      engine.Setup();
      CHECK(engine.output(0).layout == "HW");
      continue;
    }
    auto thrown = ThrownBy([&] { engine.Setup(); });
    CHECK(thrown.rule == "OPABI-H-014");
    CHECK_SAYS(thrown, "'watch'");
    CHECK_SAYS(thrown, "HW");
    CHECK_SAYS(thrown, "WH");
  }
}

}  // namespace
}  // namespace opabi
