// SPDX-License-Identifier: Apache-2.0
// What a kernel is measured against: the same work as an ordinary DALI plugin, once with its loop on the
// calling thread and once, as DALI's own operators do it, with a task a sample on the thread pool.
#include <cstdint>
#include <vector>

#include "dali/pipeline/operator/checkpointing/stateless_operator.h"
#include "dali/pipeline/operator/operator.h"

namespace bench {

void Invert(const uint8_t *in, uint8_t *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = static_cast<uint8_t>(255 - in[i]);
}

class Base : public dali::StatelessOperator<dali::CPUBackend> {
 public:
  using StatelessOperator::StatelessOperator;

 protected:
  bool SetupImpl(std::vector<dali::OutputDesc> &outputs,
                 const dali::Workspace &workspace) override {
    const auto &input = workspace.Input<dali::CPUBackend>(0);
    outputs.resize(1);
    outputs[0].type = input.type();
    outputs[0].shape = input.shape();
    return true;
  }
};

class Inline : public Base {
 public:
  using Base::Base;
  void RunImpl(dali::Workspace &workspace) override {
    const auto &input = workspace.Input<dali::CPUBackend>(0);
    auto &output = workspace.Output<dali::CPUBackend>(0);
    const auto &shape = input.shape();
    for (int s = 0; s < input.num_samples(); s++) {
      Invert(input.tensor<uint8_t>(s), output.mutable_tensor<uint8_t>(s), shape.tensor_size(s));
    }
    output.SetLayout(input.GetLayout());
  }
};

class Tasks : public Base {
 public:
  using Base::Base;
  void RunImpl(dali::Workspace &workspace) override {
    const auto &input = workspace.Input<dali::CPUBackend>(0);
    auto &output = workspace.Output<dali::CPUBackend>(0);
    const auto &shape = input.shape();
    auto &pool = workspace.GetThreadPool();
    for (int s = 0; s < input.num_samples(); s++) {
      const int64_t n = shape.tensor_size(s);
      pool.AddWork(
          [&, s, n](int) {
            Invert(input.tensor<uint8_t>(s), output.mutable_tensor<uint8_t>(s), n);
          },
          n);
    }
    pool.RunAll();
    output.SetLayout(input.GetLayout());
  }
};

}  // namespace bench

DALI_SCHEMA(BenchInvertInline).NumInput(1).NumOutput(1);
DALI_SCHEMA(BenchInvertTasks).NumInput(1).NumOutput(1);
DALI_REGISTER_OPERATOR(BenchInvertInline, bench::Inline, dali::CPU);
DALI_REGISTER_OPERATOR(BenchInvertTasks, bench::Tasks, dali::CPU);
