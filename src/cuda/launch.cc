// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "core/dtype.h"
#include "core/error.h"
#include "cuda/driver.h"
#include "opabi/opabi.cuh"

namespace opabi::cuda {
namespace {

constexpr int kMaxParams = 256;
constexpr size_t kBatchHeader = offsetof(batch, words);
constexpr int64_t kMaxGridY = 65535;
constexpr unsigned kFreeSharedBytes = 48 * 1024;  // more must be allowed for each function
constexpr int kMaxDynamicShared = 8;              // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

const opabi_tensor &TensorOf(const opabi_call &call, int64_t sample, int32_t port) {
  if (port >= kArguments) return call.args[sample * call.n_args + port - kArguments];
  if (port >= kOutputs) return call.outputs[sample * call.n_out + port - kOutputs];
  return call.inputs[sample * call.n_in + port];
}

int64_t Product(const opabi_call &call, int64_t sample, const Axis &axis) {
  int64_t n = 1;
  for (const Axis::Factor &factor : axis.factors) {
    const opabi_tensor &tensor = TensorOf(call, sample, factor.port);
    n *= factor.dim < 0 ? opabi_numel(&tensor) : tensor.shape[factor.dim];
  }
  return n;
}

/// Bytes in host memory that the launches of a batch's samples need on the device.
template <typename Call>
int64_t DataBytes(const Call &call) {
  return detail::staged_data(call.inputs, call.args, call.n_samples * call.n_in,
                             call.n_samples * call.n_args);
}

/// One run of a program.
class Launch {
 public:
  explicit Launch(const opabi_call &call)
      : call_(call), program_(*static_cast<const Program *>(call.user_data)) {}

  int32_t Run() {
    if (call_.device_id != program_.device_id) {
      return Fail(OPABI_UNSET, OPABI_ERROR_DEVICE,
                  "the function was loaded on CUDA device " + std::to_string(program_.device_id) +
                      ", this call is on " + std::to_string(call_.device_id) +
                      ". Load it there too.");
    }
    return program_.per_sample ? RunSamples() : RunBatch();
  }

 private:
  int32_t Fail(int64_t sample, int32_t status, const std::string &text) const {
    return OPABI_FAIL(&call_, sample, status, ("'" + program_.name + "': " + text).c_str());
  }

  int32_t FailDevice(int64_t sample, Status status, const std::string &what) const {
    if (call_.err_where) call_.err_where[OPABI_WHERE_NATIVE] = status;
    return Fail(sample, OPABI_ERROR_DEVICE, what + ": " + StatusText(status));
  }

  int32_t Submit(int64_t sample, const int64_t (&grid)[3], void **params) const {
    const auto sizes = [](auto x, auto y, auto z) {
      return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    };
    const unsigned *block = program_.block;
    const std::string launch = "launching a grid of " + sizes(grid[0], grid[1], grid[2]) +
                               " blocks of " + sizes(block[0], block[1], block[2]) +
                               " threads with " + std::to_string(program_.shared_bytes) +
                               " bytes of dynamic shared memory";
    if (grid[0] > INT_MAX || grid[1] > kMaxGridY || grid[2] > kMaxGridY) {
      return Fail(sample, OPABI_ERROR_VALUE,
                  launch + ": a GPU takes at most (2147483647, 65535, 65535) blocks.");
    }
    const Status status = GetDriver().cuLaunchKernel(
        program_.function, static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]),
        static_cast<unsigned>(grid[2]), block[0], block[1], block[2], program_.shared_bytes,
        call_.stream, params, nullptr);
    return status == kSuccess ? OPABI_OK : FailDevice(sample, status, launch);
  }

  int32_t Send(const void *staged, int64_t bytes) const {
    const Status status = GetDriver().cuMemcpyHtoDAsync_v2(
        reinterpret_cast<Pointer>(device()), staged, static_cast<size_t>(bytes), call_.stream);
    return status == kSuccess ? OPABI_OK
                              : FailDevice(OPABI_UNSET, status, "copying the table to the device");
  }

  char *device() const { return static_cast<char *>(call_.scratch[OPABI_SCRATCH_DEVICE]); }

  int32_t RunBatch() {
    thread_local std::vector<word> storage;  // one stays for each thread: a batch is some kilobytes
    storage.resize(kBatchHeader / sizeof(word) + static_cast<size_t>(program_.batch_words));
    auto *packed = reinterpret_cast<batch *>(storage.data());
    const Axis &axis = program_.axes[0];
    const bool by_total = program_.by_total || call_.n_samples > kMaxGridY;
    const void *staged;
    const int64_t bytes = pack(
        &call_, [&](int64_t s) { return Product(call_, s, axis); }, axis.per_block, by_total,
        program_.batch_words, packed, &staged);
    if (bytes < 0) return Fail(OPABI_UNSET, OPABI_ERROR_ABI, "the host gave no scratch.");
    if (packed->n_rows == 0) return OPABI_OK;
    if (bytes) {
      if (const int32_t status = Send(staged, bytes); status != OPABI_OK) return status;
    }
    void *params[] = {packed};
    return Submit(OPABI_UNSET, {packed->blocks_x, packed->blocks_y, 1}, params);
  }

  int32_t RunSamples() {
    if (device()) {
      if (const int32_t status = SendData(); status != OPABI_OK) return status;
    }
    for (int64_t s = 0; s < call_.n_samples; s++) {
      int64_t grid[3] = {1, 1, 1};
      for (size_t a = 0; a < program_.axes.size(); a++) {
        const Axis &axis = program_.axes[a];
        grid[a] = (Product(call_, s, axis) + axis.per_block - 1) / axis.per_block;
      }
      if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0) continue;
      uint64_t values[kMaxParams];
      void *params[kMaxParams];
      for (size_t i = 0; i < program_.params.size(); i++) {
        const Param &param = program_.params[i];
        if (!Fill(s, param, &values[i])) {
          return Fail(s, OPABI_ERROR_VALUE,
                      "parameter " + std::to_string(i) + " is too large for int32.");
        }
        params[i] = &values[i];
      }
      if (const int32_t status = Submit(s, grid, params); status != OPABI_OK) return status;
    }
    return OPABI_OK;
  }

  /// Data in host memory, one after the other; where_ says at which offset that of each tensor lies.
  int32_t SendData() {
    char *host = static_cast<char *>(call_.scratch[staging(DataBytes(call_))]);
    int64_t next = 0;
    const auto put = [&](const opabi_tensor &tensor, bool argument) {
      where_.push_back(next);
      if (!detail::is_staged(tensor, argument)) return;
      const int64_t bytes = opabi_numel(&tensor) * detail::item_size(tensor);
      if (bytes) std::memcpy(host + next, tensor.data, static_cast<size_t>(bytes));
      next += detail::aligned(bytes);
    };
    for (int64_t i = 0; i < call_.n_samples * call_.n_in; i++) put(call_.inputs[i], false);
    for (int64_t i = 0; i < call_.n_samples * call_.n_args; i++) put(call_.args[i], true);
    return Send(host, next);
  }

  const void *DeviceData(int64_t sample, int32_t port) const {
    const opabi_tensor &tensor = TensorOf(call_, sample, port);
    const bool argument = port >= kArguments;
    if ((port >= kOutputs && !argument) || !detail::is_staged(tensor, argument)) return tensor.data;
    const int64_t index =
        argument ? call_.n_samples * call_.n_in + sample * call_.n_args + port - kArguments
                 : sample * call_.n_in + port;
    return device() + where_[static_cast<size_t>(index)];
  }

  bool Fill(int64_t sample, const Param &param, uint64_t *value) const {
    if (param.kind == Param::kConstant) return *value = param.value, true;
    if (param.kind == Param::kPointer)
      return *value = reinterpret_cast<uint64_t>(DeviceData(sample, param.port)), true;
    int64_t number = sample;
    if (param.kind != Param::kSample) {
      const opabi_tensor &tensor = TensorOf(call_, sample, param.port);
      switch (param.kind) {
        case Param::kExtent: number = tensor.shape[param.dim]; break;
        case Param::kStride:
          number = tensor.strides[param.dim] * (param.value ? DtypeSize(tensor.dtype) : 1);
          break;
        case Param::kNumel: number = opabi_numel(&tensor); break;
        default:
          *value = 0;
          std::memcpy(value, tensor.data, static_cast<size_t>(DtypeSize(tensor.dtype)));
          return true;
      }
    }
    *value = static_cast<uint64_t>(number);
    return param.size == 8 || (number >= INT32_MIN && number <= INT32_MAX);
  }

  const opabi_call &call_;
  const Program &program_;
  std::vector<int64_t> where_;
};

}  // namespace

void Prepare(Program *program) {
  const Driver &driver = GetDriver();
  const std::string label = "CUDA function '" + program->name + "'";
  if (program->params.size() > kMaxParams) {
    throw Error(Kind::kValue, "",
                label + ": expected at most " + std::to_string(kMaxParams) + " parameters.");
  }
  if (!program->function) throw Error(Kind::kValue, "", label + ": its handle is NULL.");
  const Context context(program->device_id);
  const Current current(context);
  if (!program->per_sample && driver.cuFuncGetParamInfo) {
    size_t offset = 0, size = 0;
    Check(driver.cuFuncGetParamInfo(program->function, 0, &offset, &size), label);
    if (size <= kBatchHeader || (size - kBatchHeader) % sizeof(word)) {
      throw Error(
          Kind::kValue, "",
          label + ": expected one parameter OPABI_BATCH(name) of opabi/opabi.cuh, found one of " +
              std::to_string(size) + " bytes. For parameters of its own, declare what they are.");
    }
    program->batch_words = static_cast<int64_t>((size - kBatchHeader) / sizeof(word));
  }
  if (program->shared_bytes > kFreeSharedBytes) {
    Check(driver.cuFuncSetAttribute(program->function, kMaxDynamicShared,
                                    static_cast<int>(program->shared_bytes)),
          label + ", " + std::to_string(program->shared_bytes) + " bytes of dynamic shared memory");
  }
}

void *LoadFunction(int32_t device_id, const std::string &image, const std::string &name) {
  const Driver &driver = GetDriver();
  const std::string label = "CUDA function '" + name + "' on device " + std::to_string(device_id);
  const Context context(device_id);
  const Current current(context);
  void *module = nullptr, *function = nullptr;
  Check(driver.cuModuleLoadData(&module, image.c_str()), label + ", loading its module");
  Check(driver.cuModuleGetFunction(&function, module, name.c_str()), label);
  return function;
}

int32_t LaunchRun(const opabi_call *call) {
  try {
    return Launch(*call).Run();
  } catch (const std::exception &error) {
    return OPABI_FAIL(call, OPABI_UNSET, OPABI_ERROR_INTERNAL, error.what());
  }
}

int32_t LaunchSetup(const opabi_setup *setup) {
  const Program &program = *static_cast<const Program *>(setup->user_data);
  if (program.setup) {
    opabi_setup own = *setup;
    own.user_data = program.setup_data;
    const int32_t status = program.setup(&own);
    if (status != OPABI_OK) return status;
  }
  const int64_t bytes =
      program.per_sample ? DataBytes(*setup) : pack_bytes(setup, program.batch_words);
  setup->scratch_bytes[staging(bytes)] += bytes;
  setup->scratch_bytes[OPABI_SCRATCH_DEVICE] += bytes;
  return OPABI_OK;
}

}  // namespace opabi::cuda
