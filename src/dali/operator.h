// SPDX-License-Identifier: Apache-2.0
// The operator opabi__Call: a workspace's tensor lists become the engine's tables, and back. What a kernel may do,
// and what a wrong one gets told, is the engine's matter (core/engine.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine.h"
#include "dali/pipeline/operator/checkpointing/stateless_operator.h"
#include "dali/pipeline/operator/operator.h"
#include "dali/spec.h"

namespace opabi {

/// One operator of a pipeline on the CPU. Its inputs are those of the kernel's that are no constants, then one for
/// each argument that is given per sample. Throws what DALI turns into Python's ValueError, TypeError, IndexError and RuntimeError.
class Call {
 public:
  explicit Call(const dali::OpSpec &spec);

  /// True if the executor shall allocate the outputs: all sizes are known before the kernel runs.
  bool Setup(std::vector<dali::OutputDesc> &outputs, const dali::Workspace &workspace);
  void Run(dali::Workspace &workspace);

 private:
  void CheckCounts(const dali::OpSpec &spec) const;
  void SetConstants(const dali::OpSpec &spec);
  int BatchSize(const dali::Workspace &workspace) const;
  void DescribeInputs(const dali::Workspace &workspace);
  void DescribeConstants();
  std::string Label(int input) const;
  void Allocate(dali::Workspace &workspace);
  void RunEngine(dali::Workspace &workspace);
  void CopyBounded(dali::Workspace &workspace);

  int n_workers_, max_batch_;
  std::unique_ptr<Engine> engine_;
  std::vector<int> ports_;      // the kernel's input that each leading input feeds
  std::vector<int> arguments_;  // the argument that each trailing input feeds
  std::vector<Constant> constant_inputs_;
  bool bounded_ = false;        // some output's size is known only after the run
  PortInfo info_;               // reused from port to port
  dali::TensorListShape<> shape_;
};

/// The class that DALI sees. `Base` decides on checkpoints.
template <typename Base>
class CallOperator final : public Base {
 public:
  explicit CallOperator(const dali::OpSpec &spec) : Base(spec), call_(spec) {}

 protected:
  bool SetupImpl(std::vector<dali::OutputDesc> &outputs, const dali::Workspace &workspace) override {
    return call_.Setup(outputs, workspace);
  }
  using Base::RunImpl;
  void RunImpl(dali::Workspace &workspace) override { call_.Run(workspace); }

 private:
  Call call_;
};

/// The kernel that a definition names: by handle, or by library and symbol. Throws Error.
std::shared_ptr<Kernel> FindKernel(const dali::OpSpec &spec);

/// The operator of the class that suits the kernel: checkpoints need hooks where it has state of its own.
std::unique_ptr<dali::OperatorBase> MakeCall(const dali::OpSpec &spec);

}  // namespace opabi
