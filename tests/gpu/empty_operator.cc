// SPDX-License-Identifier: Apache-2.0
// The least that an operator of DALI on the GPU can do: outputs like the input, nothing written. What opabi's operator
// adds to it is opabi's.
#include "dali/pipeline/operator/operator.h"

namespace opabi_bench {

class Empty : public dali::Operator<dali::GPUBackend> {
 public:
  explicit Empty(const dali::OpSpec &spec) : Operator(spec) {}

 protected:
  bool SetupImpl(std::vector<dali::OutputDesc> &outputs,
                 const dali::Workspace &workspace) override {
    const auto &input = workspace.Input<dali::GPUBackend>(0);
    outputs.resize(1);
    outputs[0] = {input.shape(), input.type()};
    return true;
  }
  using Operator::RunImpl;
  void RunImpl(dali::Workspace &) override {}
};

}  // namespace opabi_bench

namespace dali {
DALI_SCHEMA(opabi_bench__Empty).NumInput(1).NumOutput(1);
DALI_REGISTER_OPERATOR(opabi_bench__Empty, opabi_bench::Empty, GPU);
}  // namespace dali
