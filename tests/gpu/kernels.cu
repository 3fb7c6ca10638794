// SPDX-License-Identifier: Apache-2.0
// Kernels that launch themselves, compiled by nvcc into a library.
#include <opabi/opabi.cuh>

namespace {

constexpr int kThreads = 256;

__global__ void Invert(OPABI_BATCH(batch)) {
  opabi::transform<unsigned char, unsigned char>(batch, [](unsigned char x) { return 255 - x; });
}

int32_t InvertSetup(const opabi_setup *setup) {
  opabi::prepare(setup);
  return OPABI_OK;
}

int32_t InvertRun(const opabi_call *call) {
  opabi::batch batch;
  const cudaError_t packed = opabi::pack(call, kThreads * opabi::kTransformUnroll * 16, &batch);
  if (packed != cudaSuccess || batch.n_rows == 0) return opabi::status(call, packed);
  Invert<<<opabi::grid(batch), kThreads, 0, static_cast<cudaStream_t>(call->stream)>>>(batch);
  return opabi::status(call, cudaGetLastError());
}

/// The same over the device's tables, which the host stages: OPABI_DEVICE_TABLES.
__global__ void InvertTables(const opabi_tensor *inputs, const opabi_tensor *outputs,
                             int per_block) {
  const opabi_tensor &in = inputs[blockIdx.y];
  long long n = 1;
  for (int d = 0; d < in.ndim; d++) n *= in.shape[d];
  const long long begin = static_cast<long long>(blockIdx.x) * per_block;
  if (begin >= n) return;
  opabi::transform_part(
      {0, begin, begin + per_block < n ? begin + per_block : n}, n,
      [](unsigned char x) { return 255 - x; },
      static_cast<unsigned char *>(outputs[blockIdx.y].data),
      static_cast<const unsigned char *>(in.data));
}

int32_t InvertTablesRun(const opabi_call *call) {
  const int per_block = kThreads * opabi::kTransformUnroll * 16;
  int64_t largest = 0;
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t n = opabi_numel(&call->inputs[s]);
    if (n > largest) largest = n;
  }
  if (!largest) return OPABI_OK;
  const dim3 grid(static_cast<unsigned>((largest + per_block - 1) / per_block),
                  static_cast<unsigned>(call->n_samples));
  InvertTables<<<grid, kThreads, 0, static_cast<cudaStream_t>(call->stream)>>>(
      call->device_inputs, call->device_outputs, per_block);
  return opabi::status(call, cudaGetLastError());
}

/// Enqueues nothing: what a call costs the host.
int32_t NothingRun(const opabi_call *) { return OPABI_OK; }

/// Writes far outside every allocation.
__global__ void Stray() { *reinterpret_cast<volatile int *>(0x10) = 1; }
int32_t StrayRun(const opabi_call *call) {
  Stray<<<1, 1, 0, static_cast<cudaStream_t>(call->stream)>>>();
  return opabi::status(call, cudaGetLastError());
}

/// Asks for more threads than a block may have.
__global__ void Idle() {}
int32_t TooManyRun(const opabi_call *call) {
  Idle<<<1, 4096, 0, static_cast<cudaStream_t>(call->stream)>>>();
  return opabi::status(call, cudaGetLastError());
}

/// Needs scratch of each kind: out = in, by way of both.
int32_t ScratchSetup(const opabi_setup *setup) {
  int64_t bytes = 0;
  for (int64_t s = 0; s < setup->n_samples; s++) bytes += opabi_numel(&setup->inputs[s]);
  setup->scratch_bytes[OPABI_SCRATCH_DEVICE] = bytes;
  setup->scratch_bytes[OPABI_SCRATCH_PINNED] = 8;
  return OPABI_OK;
}
int32_t ScratchRun(const opabi_call *call) {
  const auto stream = static_cast<cudaStream_t>(call->stream);
  char *next = static_cast<char *>(call->scratch[OPABI_SCRATCH_DEVICE]);
  for (int64_t s = 0; s < call->n_samples; s++) {
    const size_t bytes = static_cast<size_t>(opabi_numel(&call->inputs[s]));
    cudaMemcpyAsync(next, call->inputs[s].data, bytes, cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(call->outputs[s].data, next, bytes, cudaMemcpyDeviceToDevice, stream);
    next += bytes;
  }
  auto *pinned = static_cast<unsigned char *>(call->scratch[OPABI_SCRATCH_PINNED]);
  pinned[0] = 42;
  if (call->n_samples && opabi_numel(&call->outputs[0])) {
    cudaMemcpyAsync(call->outputs[0].data, pinned, 1, cudaMemcpyHostToDevice, stream);
  }
  return opabi::status(call, cudaGetLastError());
}

opabi_kernel Describe(const char *name, opabi_run_fn run, opabi_setup_fn setup, uint32_t critical) {
  opabi_kernel kernel{};
  kernel.magic = OPABI_MAGIC;
  kernel.struct_size = sizeof kernel;
  kernel.abi_min = OPABI_NEEDS;
  kernel.name = name;
  kernel.signature = "uint8[...] -> uint8[...]";
  kernel.device_type = OPABI_CUDA;
  kernel.critical = critical;
  kernel.setup = setup;
  kernel.run = run;
  return kernel;
}

const opabi_kernel kInvert = Describe("invert", InvertRun, InvertSetup, OPABI_WHOLE_BATCH);
const opabi_kernel kInvertTables =
    Describe("invert_tables", InvertTablesRun, nullptr, OPABI_DEVICE_TABLES);
const opabi_kernel kNothing = Describe("nothing", NothingRun, nullptr, 0);
const opabi_kernel kStray = Describe("stray", StrayRun, nullptr, 0);
const opabi_kernel kTooMany = Describe("too_many", TooManyRun, nullptr, 0);
const opabi_kernel kScratch = Describe("scratch", ScratchRun, ScratchSetup, OPABI_WHOLE_BATCH);

}  // namespace

OPABI_LIBRARY("gpu_kernels", "1.0.0", &kInvert, &kInvertTables, &kNothing, &kStray, &kTooMany,
              &kScratch)
