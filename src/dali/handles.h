// SPDX-License-Identifier: Apache-2.0
// Kernels that live in this process only, by handle. A pipeline's definition holds the handle, a random number;
// it never holds an address, so that a definition from another process finds nothing instead of something else.
#pragma once

#include <cstdint>
#include <memory>

#include "core/kernel.h"

namespace opabi {

/// Makes `kernel` known to operators built from now on. The handle is positive. Thread-safe, as all here.
int64_t AddHandle(std::shared_ptr<Kernel> kernel);

/// Operators that hold the kernel keep it; new ones no longer find it. Unknown handles are ignored.
void ForgetHandle(int64_t handle);

/// Throws Error (kValue) if the handle is not, or no longer, known in this process.
std::shared_ptr<Kernel> FindHandle(int64_t handle);

}  // namespace opabi
