// SPDX-License-Identifier: Apache-2.0
#include "dali/operator.h"

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "core/dtype.h"
#include "core/error.h"
#include "core/library.h"
#include "cuda/lane.h"
#include "dali/handles.h"
#include "dali/pipeline/operator/error_reporting.h"
#include "dali/pool.h"
#include "dali/spec.h"

namespace opabi {
namespace {

constexpr uint32_t kFromDali[] = {OPABI_UINT8,   OPABI_UINT16,  OPABI_UINT32,  OPABI_UINT64,
                                  OPABI_INT8,    OPABI_INT16,   OPABI_INT32,   OPABI_INT64,
                                  OPABI_FLOAT16, OPABI_FLOAT32, OPABI_FLOAT64, OPABI_BOOL};
/// The default stream's handle, where NULL is none (CU_STREAM_LEGACY).
void *const kLegacyStream = reinterpret_cast<void *>(1);

constexpr int kDaliTypes = sizeof kFromDali / sizeof kFromDali[0];
static_assert(DALI_UINT8 == 0 && DALI_BOOL == kDaliTypes - 1, "the table follows DALI's order");

dali::DALIDataType ToDali(uint32_t dtype) {
  int type = 0;
  while (type < kDaliTypes - 1 && kFromDali[type] != dtype) type++;
  return static_cast<dali::DALIDataType>(type);
}

/// Runs `body` and turns the core's error into the exception that DALI maps to the Python one of its kind.
template <typename Body>
auto Translated(const Body &body) {
  try {
    return body();
  } catch (const Error &error) {
    switch (error.kind()) {
      case Kind::kValue: throw std::invalid_argument(error.what());
      case Kind::kType: throw dali::DaliTypeError(error.what());
      case Kind::kIndex: throw std::out_of_range(error.what());
      default: throw std::runtime_error(error.what());
    }
  }
}

void FillShape(const Engine &engine, int port, bool actual, dali::TensorListShape<> &shape) {
  const int64_t n = engine.n_samples();
  const int32_t ndim = engine.output(port).ndim;
  shape.resize(static_cast<int>(n), ndim);
  int64_t *next = shape.shapes.data();
  for (int64_t s = 0; s < n; s++) {
    const int64_t *extents = actual ? engine.actual_shape(s, port) : engine.shape(s, port);
    for (int32_t d = 0; d < ndim; d++) *next++ = extents[d];
  }
}

}  // namespace

std::shared_ptr<Kernel> FindKernel(const dali::OpSpec &spec) {
  const auto handle = spec.GetArgument<int64_t>("handle");
  const auto library = spec.GetArgument<std::string>("library");
  if ((handle != 0) == !library.empty()) {
    throw Error(Kind::kValue, "",
                "opabi.call: expected either a handle, or a library and a symbol.");
  }
  return handle ? FindHandle(handle) : OpenKernel(library, spec.GetArgument<std::string>("symbol"));
}

template <typename Backend>
std::unique_ptr<dali::OperatorBase> MakeCall(const dali::OpSpec &spec) {
  std::shared_ptr<Kernel> kernel = Translated([&] {
    std::shared_ptr<Kernel> found = FindKernel(spec);
    const bool on_gpu = std::is_same_v<Backend, dali::GPUBackend>;
    if ((found->descriptor().device_type == OPABI_CUDA) != on_gpu) {
      throw Error(Kind::kType, "OPABI-H-002",
                  "kernel '" + found->name() + "' works on the " + (on_gpu ? "CPU" : "GPU") +
                      ", this operator on the " + (on_gpu ? "GPU." : "CPU."));
    }
    return found;
  });
  if (kernel->has_instance())
    return std::make_unique<StatefulCall<Backend>>(spec, std::move(kernel));
  return std::make_unique<StatelessCall<Backend>>(spec, std::move(kernel));
}

template std::unique_ptr<dali::OperatorBase> MakeCall<dali::CPUBackend>(const dali::OpSpec &);
template std::unique_ptr<dali::OperatorBase> MakeCall<dali::GPUBackend>(const dali::OpSpec &);

Call::Call(const dali::OpSpec &spec, std::shared_ptr<Kernel> kernel)
    : n_workers_(spec.GetArgument<int>("num_threads")),
      max_batch_(spec.GetArgument<int>("max_batch_size")) {
  Translated([&] {
    EngineOptions options;
    options.checked = spec.GetArgument<bool>("checked");
    options.max_batch = max_batch_;
    options.n_workers = n_workers_;
    if (kernel->descriptor().device_type == OPABI_CUDA) {
      options.device_id = spec.GetArgument<int>("device_id");
      device_ = std::make_unique<cuda::Lane>(options.device_id);
    }
    engine_ = std::make_unique<Engine>(std::move(kernel), options);
    for (const std::string &name : spec.GetRepeatedArgument<std::string>("argument_names")) {
      arguments_.push_back(engine_->FindArgument(name));
    }
    SetConstants(spec);
    CheckCounts(spec);
    for (int port = 0; port < engine_->n_out(); port++) bounded_ |= engine_->bounded(port);
  });
}

void Call::SetConstants(const dali::OpSpec &spec) {
  std::vector<bool> constant(engine_->n_in());
  for (const std::string &text : spec.GetRepeatedArgument<std::string>("constants")) {
    Constant value = ParseConstant(text);
    const int port = value.input();
    if (port >= 0 && port < engine_->n_in()) {
      constant[port] = true;
      constant_inputs_.push_back(std::move(value));
    } else {
      engine_->SetConstant(engine_->FindArgument(value.name), value.tensor(), Origin::kTyped);
    }
  }
  for (int port = 0; port < engine_->n_in(); port++) {
    if (!constant[port]) ports_.push_back(port);
  }
}

void Call::CheckCounts(const dali::OpSpec &spec) const {
  const size_t found = spec.NumRegularInput();
  const std::string label = "kernel '" + engine_->kernel().name() + "': expected ";
  const std::string signature =
      ". Its signature is \"" + engine_->kernel().signature().text() + "\".";
  if (found != ports_.size() + arguments_.size()) {
    throw Error(Kind::kType, "",
                label + std::to_string(ports_.size()) + " inputs and " +
                    std::to_string(arguments_.size()) + " arguments per sample, found " +
                    std::to_string(found) + " in all" + signature);
  }
  const int n_out = spec.GetArgument<int>("n_outputs");
  if (n_out != engine_->n_out()) {
    throw Error(Kind::kValue, "",
                label + "n_outputs=" + std::to_string(engine_->n_out()) + ", found " +
                    std::to_string(n_out) + signature);
  }
}

bool Call::Setup(std::vector<dali::OutputDesc> &outputs, const dali::Workspace &workspace) {
  return Translated([&] {
    engine_->Begin(BatchSize(workspace));
    DescribeInputs(workspace);
    DescribeConstants();
    engine_->Setup(DeviceContext(workspace));
    if (bounded_) return false;
    outputs.resize(engine_->n_out());
    for (int port = 0; port < engine_->n_out(); port++) {
      outputs[port].type = ToDali(engine_->output(port).dtype);
      FillShape(*engine_, port, false, outputs[port].shape);
    }
    return true;
  });
}

int Call::BatchSize(const dali::Workspace &workspace) const {
  if (workspace.NumInput() > 0) return workspace.GetInputBatchSize(0);
  return workspace.NumOutput() > 0 ? workspace.GetRequestedBatchSize(0) : max_batch_;
}

std::string Call::Label(int input) const {
  const int n_ports = static_cast<int>(ports_.size());
  const Kernel &kernel = engine_->kernel();
  return "kernel '" + kernel.name() + "', " +
         (input < n_ports
              ? kernel.signature().InputLabel(ports_[input])
              : "argument '" +
                    std::string(kernel.descriptor().args[arguments_[input - n_ports]].name) + "'");
}

void Call::DescribeInputs(const dali::Workspace &workspace) {
  for (int i = 0; i < workspace.NumInput(); i++) {
    if (workspace.InputIsType<dali::CPUBackend>(i)) {
      info_.device_type = OPABI_CPU;
      DescribeInput(i, workspace.Input<dali::CPUBackend>(i));
    } else if (device_ && i < static_cast<int>(ports_.size())) {
      info_.device_type = OPABI_CUDA;
      DescribeInput(i, workspace.Input<dali::GPUBackend>(i));
    } else {
      throw Error(Kind::kType, "OPABI-H-002",
                  Label(i) + ": expected a batch on the CPU, found one on the GPU.");
    }
  }
}

template <typename Backend>
void Call::DescribeInput(int i, const dali::TensorList<Backend> &list) {
  const int n_ports = static_cast<int>(ports_.size());
  const int type = list.type();
  if (type < 0 || type >= kDaliTypes) {
    throw Error(Kind::kType, "OPABI-H-002",
                Label(i) + ": DALI's type " + std::string(list.type_info().name()) +
                    " is no element type of opabi. Cast it to a number first.");
  }
  info_.dtype = kFromDali[type];
  info_.ndim = list.sample_dim();
  info_.layout = list.GetLayout().c_str();
  info_.device_id = info_.device_type == OPABI_CPU ? 0 : list.device_id();
  const int64_t *shape = list.shape().shapes.data();
  const int n = list.num_samples();
  if (i < n_ports) {
    const int port = ports_[i];
    engine_->DescribeInput(port, info_);
    for (int s = 0; s < n; s++, shape += info_.ndim) {
      engine_->SetInput(s, port, const_cast<void *>(list.raw_tensor(s)), shape);
    }
  } else {
    const int arg = arguments_[i - n_ports];
    engine_->DescribeArgument(arg, info_, Origin::kTyped);
    for (int s = 0; s < n; s++, shape += info_.ndim)
      engine_->SetArgument(s, arg, list.raw_tensor(s), shape);
  }
}

void Call::DescribeConstants() {
  for (Constant &constant : constant_inputs_) {
    info_.dtype = constant.dtype;
    info_.ndim = static_cast<int32_t>(constant.shape.size());
    info_.layout.clear();
    info_.device_type = OPABI_CPU;
    info_.device_id = 0;
    engine_->DescribeInput(constant.input(), info_);
    for (int64_t s = 0; s < engine_->n_samples(); s++) {
      engine_->SetInput(s, constant.input(), constant.data.data(), constant.shape.data());
    }
  }
}

void Call::Run(dali::Workspace &workspace) {
  Translated([&] {
    if (bounded_) Allocate(workspace);
    device_ ? SetOutputs<dali::GPUBackend>(workspace) : SetOutputs<dali::CPUBackend>(workspace);
    if (engine_->n_samples() > 0) RunEngine(workspace);
    CopyBounded(workspace);
    device_ ? SetLayouts<dali::GPUBackend>(workspace) : SetLayouts<dali::CPUBackend>(workspace);
  });
}

template <typename Backend>
void Call::SetOutputs(dali::Workspace &workspace) {
  for (int port = 0; port < engine_->n_out(); port++) {
    if (engine_->bounded(port)) continue;
    auto &list = workspace.Output<Backend>(port);
    for (int s = 0; s < list.num_samples(); s++)
      engine_->SetOutput(s, port, list.raw_mutable_tensor(s));
  }
}

template <typename Backend>
void Call::SetLayouts(dali::Workspace &workspace) {
  for (int port = 0; port < engine_->n_out(); port++) {
    workspace.Output<Backend>(port).SetLayout(engine_->output(port).layout);
  }
}

RunContext Call::DeviceContext(const dali::Workspace &workspace) const {
  RunContext context;
  if (device_) {
    context.device = device_.get();
    context.stream = workspace.stream() ? workspace.stream() : kLegacyStream;
  }
  return context;
}

std::string Call::SaveState() const {
  return Translated([&] { return engine_->SaveState(); });
}

void Call::RestoreState(const std::string &state) {
  Translated([&] { engine_->RestoreState(state); });
}

void Call::Allocate(dali::Workspace &workspace) {
  for (int port = 0; port < engine_->n_out(); port++) {
    if (engine_->bounded(port)) continue;
    FillShape(*engine_, port, false, shape_);
    workspace.Output<dali::CPUBackend>(port).Resize(shape_, ToDali(engine_->output(port).dtype));
  }
}

void Call::RunEngine(dali::Workspace &workspace) {
  RunContext context = DeviceContext(workspace);
  InlinePool alone;
  context.pool = &alone;
  if (device_ || !workspace.HasThreadPool()) return engine_->Run(context);
  WorkspacePool pool(workspace.GetThreadPool(), n_workers_);
  context.pool = &pool;
  engine_->Run(context);
}

void Call::CopyBounded(dali::Workspace &workspace) {
  for (int port = 0; port < engine_->n_out(); port++) {
    if (!engine_->bounded(port)) continue;
    auto &list = workspace.Output<dali::CPUBackend>(port);
    FillShape(*engine_, port, true, shape_);
    list.Resize(shape_, ToDali(engine_->output(port).dtype));
    const int64_t size = DtypeSize(engine_->output(port).dtype);
    for (int s = 0; s < list.num_samples(); s++) {
      const int64_t bytes = shape_.tensor_size(s) * size;
      if (bytes) std::memcpy(list.raw_mutable_tensor(s), engine_->data(s, port), bytes);
    }
  }
}

}  // namespace opabi
