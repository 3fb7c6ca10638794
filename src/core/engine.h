// SPDX-License-Identifier: Apache-2.0
// The call engine: one kernel in one operator, batch by batch. Eager calls and the DALI operator both go
// through it, so that what they do cannot differ.
//
//   engine.Begin(n)                     the host describes inputs and per-sample arguments,
//     .DescribeInput .SetInput ...      then sets each sample
//   engine.Setup()                      checks, specialize, setup, checks -> output(port), shape(s, port)
//   ... the host allocates ...
//     .SetOutput(s, port, data)
//   engine.Run(context)                 scratch, run, scheduling, errors -> actual shapes
//
// An engine serves one batch at a time. Every failure throws opabi::Error; the next Begin starts afresh.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/arguments.h"
#include "core/batch.h"
#include "core/device.h"
#include "core/kernel.h"
#include "core/pool.h"
#include "core/report.h"
#include "core/schedule.h"

namespace opabi {

struct EngineOptions {
  bool checked = false;   // guards, poison, inputs compared: checked.cc; CUDA: waits for the call
  int64_t max_batch = 0;  // 0: not known
  int n_workers = 1;      // the largest pool that Run will get
  int32_t device_id = 0;  // for CUDA kernels
};

/// What a host lends for one run. CPU kernels use the pool alone, CUDA kernels the rest.
struct RunContext {
  Pool *pool = nullptr;
  Device *device = nullptr;
  void *stream = nullptr;  // a CUstream, not NULL
};

class Engine {
 public:
  /// Calls the kernel's create, if it has one.
  Engine(std::shared_ptr<Kernel> kernel, const EngineOptions &options);
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  const Kernel &kernel() const { return *kernel_; }
  int n_in() const { return n_in_; }
  int n_out() const { return n_out_; }
  int n_args() const { return n_args_; }

  /// A constant for argument `arg`, copied; every batch from now on has it.
  void SetConstant(int arg, const opabi_tensor &value, Origin origin) {
    arguments_.SetConstant(arg, value, origin);
  }

  int FindArgument(const std::string &name) const { return arguments_.Find(name); }

  void Begin(int64_t n_samples);
  void DescribeInput(int port, const PortInfo &info) { in_info_[port] = info; }
  void SetInput(int64_t sample, int port, void *data, const int64_t *shape,
                const int64_t *strides = nullptr) {
    inputs_.Set(sample, port, in_info_[port], data, shape, strides);
  }
  void DescribeArgument(int arg, const PortInfo &info, Origin origin) {
    arguments_.Describe(arg, info, origin);
  }
  void SetArgument(int64_t sample, int arg, const void *data, const int64_t *shape) {
    arguments_.Set(sample, arg, data, shape);
  }

  /// Whether Setup may run code of the kernel's: its setup or specialize.
  bool SetupCallsKernel() const { return functions_.setup || kernel_->descriptor().specialize; }

  /// `context` is for CUDA kernels whose setup reads data: they find it complete (OPABI-H-031).
  void Setup(const RunContext &context = {});
  int64_t n_samples() const { return n_samples_; }
  const PortInfo &output(int port) const { return out_info_[port]; }
  const int64_t *shape(int64_t sample, int port) const {
    return out_shape_.data() + (sample * n_out_ + port) * max_ndim_;
  }

  /// True if run decides this port's shape. Then the engine keeps the data: no SetOutput; after Run
  /// actual_shape and data say what to copy.
  bool bounded(int port) const { return bounded_[port] != 0; }

  void SetOutput(int64_t sample, int port, void *data) {
    outputs_.Set(sample, port, out_info_[port], data, shape(sample, port));
  }

  void Run(const RunContext &context);
  const int64_t *actual_shape(int64_t sample, int port) const {
    return out_actual_.data() + (sample * n_out_ + port) * max_ndim_;
  }
  const void *data(int64_t sample, int port) const { return outputs_.at(sample, port).data; }

  /// The state of an instance for a checkpoint. Throws Error, also where the kernel has no save.
  std::string SaveState() const;
  void RestoreState(const std::string &state);

 private:
  struct Worker;  // what one thread has for its calls: scratch, error buffer, failure

  void Create();
  // engine.cc: setup
  void CheckInputs();
  void BindTypes();
  bool IsUniform() const;
  void InferShapes();
  void CallSetup();
  void CheckOutputs();
  // engine_run.cc: run
  void PrepareOutputs();
  void ResetActual(int64_t sample);
  bool IsBounded(int port, int32_t dimension) const;
  void PrepareWorkers(int n);
  void FillCall(int worker, int64_t begin, int64_t end, opabi_call *call);
  void CallRange(int worker, int64_t begin, int64_t end);
  void CallRun(const opabi_call &call);
  void CheckActualShapes() const;
  int64_t BatchBytes() const;
  // engine_cuda.cc
  void CheckDevice() const;
  void RunCuda(const RunContext &context);
  // checked.cc
  void RunChecked();
  friend class CheckedCall;

  std::shared_ptr<Kernel> kernel_;
  EngineOptions options_;
  int n_in_, n_out_, n_args_;
  void *instance_ = nullptr;
  int64_t n_samples_ = 0;

  std::vector<PortInfo> in_info_, out_info_;
  std::vector<const char *> in_layouts_, out_layouts_;
  Table inputs_, outputs_;
  Arguments arguments_;

  bool bound_ = false;  // the four below hold for batches of types key_
  TypeKey key_, batch_key_;
  Specialization functions_{};
  BoundTypes types_;
  int32_t max_ndim_ = 1;

  bool uniform_ = false;  // all samples have the first one's extents, as far as the signature tells
  int64_t output_bytes_ = 0;         // of the batch
  std::vector<uint32_t> out_dtype_;  // as setup left them
  std::vector<int32_t> out_ndim_;
  std::vector<int64_t> out_shape_, out_actual_;
  std::vector<char> bounded_;                    // per output
  std::vector<std::vector<char>> bounded_data_;  // per output, for this batch
  int64_t scratch_bytes_[3] = {0, 0, 0};

  Schedule schedule_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace opabi
