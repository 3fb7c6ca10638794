// SPDX-License-Identifier: Apache-2.0
// The operator opabi__Call: a workspace's tensor lists become the engine's tables, and back. What a kernel may do,
// and what a wrong one gets told, is the engine's matter (core/engine.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/engine.h"
#include "dali/pipeline/operator/checkpointing/op_checkpoint.h"
#include "dali/pipeline/operator/checkpointing/stateless_operator.h"
#include "dali/pipeline/operator/operator.h"
#include "dali/spec.h"

namespace opabi {

/// One operator of a pipeline, on the CPU or the GPU as its kernel is. Its inputs are those of the kernel's that are no constants, then one for
/// each argument that is given per sample. Throws what DALI turns into Python's ValueError, TypeError, IndexError and RuntimeError.
class Call {
 public:
  Call(const dali::OpSpec &spec, std::shared_ptr<Kernel> kernel);

  /// True if the executor shall allocate the outputs: all sizes are known before the kernel runs.
  bool Setup(std::vector<dali::OutputDesc> &outputs, const dali::Workspace &workspace);
  void Run(dali::Workspace &workspace);

  std::string SaveState() const;
  void RestoreState(const std::string &state);

 private:
  void CheckCounts(const dali::OpSpec &spec) const;
  void SetConstants(const dali::OpSpec &spec);
  int BatchSize(const dali::Workspace &workspace) const;
  void DescribeInputs(const dali::Workspace &workspace);
  void DescribeConstants();
  template <typename Backend>
  void DescribeInput(int input, const dali::TensorList<Backend> &list);
  template <typename Backend>
  void SetOutputs(dali::Workspace &workspace);
  template <typename Backend>
  void SetLayouts(dali::Workspace &workspace);
  RunContext DeviceContext(const dali::Workspace &workspace) const;
  std::string Label(int input) const;
  void Allocate(dali::Workspace &workspace);
  void RunEngine(dali::Workspace &workspace);
  void CopyBounded(dali::Workspace &workspace);

  int n_workers_, max_batch_;
  std::unique_ptr<Device> device_;  // NULL: on the CPU
  std::unique_ptr<Engine> engine_;
  std::vector<int> ports_;      // the kernel's input that each leading input feeds
  std::vector<int> arguments_;  // the argument that each trailing input feeds
  std::vector<Constant> constant_inputs_;
  bool bounded_ = false;  // some output's size is known only after the run
  PortInfo info_;         // reused from port to port
  dali::TensorListShape<> shape_;
};

/// What DALI sees. `Base` decides on checkpoints.
template <typename Base>
class CallOperator : public Base {
 public:
  CallOperator(const dali::OpSpec &spec, std::shared_ptr<Kernel> kernel)
      : Base(spec), call_(spec, std::move(kernel)) {}

 protected:
  bool SetupImpl(std::vector<dali::OutputDesc> &outputs,
                 const dali::Workspace &workspace) override {
    return call_.Setup(outputs, workspace);
  }
  using Base::RunImpl;
  void RunImpl(dali::Workspace &workspace) override { call_.Run(workspace); }

  Call call_;
};

/// For kernels without an instance.
template <typename Backend>
using StatelessCall = CallOperator<dali::StatelessOperator<Backend>>;

/// For kernels with an instance, which is saved and restored by the kernel's own functions.
template <typename Backend>
class StatefulCall final : public CallOperator<dali::Operator<Backend>> {
 public:
  using CallOperator<dali::Operator<Backend>>::CallOperator;
  void SaveState(dali::OpCheckpoint &checkpoint, dali::AccessOrder) override {
    checkpoint.MutableCheckpointState() = this->call_.SaveState();
  }
  void RestoreState(const dali::OpCheckpoint &checkpoint) override {
    this->call_.RestoreState(checkpoint.CheckpointState<std::string>());
  }
  std::string SerializeCheckpoint(const dali::OpCheckpoint &checkpoint) const override {
    return checkpoint.CheckpointState<std::string>();
  }
  void DeserializeCheckpoint(dali::OpCheckpoint &checkpoint,
                             const std::string &data) const override {
    checkpoint.MutableCheckpointState() = data;
  }
};

/// The kernel that a definition names: by handle, or by library and symbol. Throws Error.
std::shared_ptr<Kernel> FindKernel(const dali::OpSpec &spec);

/// The operator of the class that suits the kernel. Throws where the kernel works elsewhere than on the backend.
template <typename Backend>
std::unique_ptr<dali::OperatorBase> MakeCall(const dali::OpSpec &spec);

}  // namespace opabi
