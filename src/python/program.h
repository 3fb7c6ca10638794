// SPDX-License-Identifier: Apache-2.0
// A launch of a CUDA function as Python makes it.
#pragma once

#include <pybind11/pybind11.h>

namespace opabi {

/// Adds load_cuda_function(device_id, image, name), which gives a handle, and the class CudaProgram: from the dict that python/opabi/adapters/cuda.py writes to the addresses run, setup
/// and user_data, which are valid as long as the object lives.
void AddCudaProgram(pybind11::module_ &module);

}  // namespace opabi
