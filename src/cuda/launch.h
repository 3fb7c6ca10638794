// SPDX-License-Identifier: Apache-2.0
// The launch of a CUfunction as a kernel of the ABI: run and setup are the functions below, user_data is a Program,
// which says how many blocks a batch takes and what each parameter of the function is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opabi/opabi.h"

namespace opabi::cuda {

/// A port in a rule: inputs count from 0, outputs from kOutputs, arguments from kArguments.
enum : int32_t { kOutputs = OPABI_MAX_PORTS, kArguments = 2 * OPABI_MAX_PORTS };

struct Param {
  enum Kind : int32_t {
    kBatch,  // opabi::batch of opabi.cuh by value; the one parameter of a launch for the whole batch
    kPointer,  // a port's data on the device
    kExtent,   // one of its extents, of `size` bytes
    kStride,   // in elements; times the element's size where value is 1
    kNumel,
    kValue,    // of an argument of rank 0
    kSample,   // the sample's number in the batch
    kConstant  // `size` bytes of value
  };
  int32_t kind = kConstant, port = 0, dim = 0, size = 8;
  uint64_t value = 0;
};

/// One axis of the grid: the product of extents, divided by what a block does of it. dim -1 is all of a port's.
struct Axis {
  struct Factor {
    int32_t port, dim;
  };
  std::vector<Factor> factors;
  int32_t per_block = 1;
};

struct Program {
  std::string name;          // the function's, for messages
  void *function = nullptr;  // a CUfunction
  int32_t device_id = 0;     // where it was loaded
  std::vector<Param> params;
  std::vector<Axis> axes;  // one to three
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  bool per_sample = false;         // a launch for each sample; else one for the batch
  bool by_total = false;           // see opabi::batch
  int64_t batch_words = 0;         // of the table that opabi::batch has room for
  opabi_setup_fn setup = nullptr;  // called first; gets setup_data
  void *setup_data = nullptr;
};

/// Checks the program, reads the size of its batch parameter where the driver tells, and allows the dynamic shared
/// memory. Throws Error that names the function.
void Prepare(Program *program);

/// The function of a module (PTX or machine code) loaded on a device. The module stays loaded: a stream may still run it
/// when its last user is gone. Throws Error with CUDA's text.
void *LoadFunction(int32_t device_id, const std::string &image, const std::string &name);

int32_t LaunchRun(const opabi_call *call);
int32_t LaunchSetup(const opabi_setup *setup);

}  // namespace opabi::cuda
