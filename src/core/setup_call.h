// SPDX-License-Identifier: Apache-2.0
// One call of a kernel's setup: slots prefilled, and compared afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/kernel.h"

namespace opabi {

/// What setup reads and fills. `dtypes`, `ndims` and `shapes` come with what the signature determines,
/// and with sentinels elsewhere.
struct SetupTables {
  const Table *inputs;
  const Table *arguments;
  const char *const *in_layouts;
  int32_t max_ndim;
  std::vector<uint32_t> *dtypes;  // [n_out]
  std::vector<int32_t> *ndims;    // [n_out]
  std::vector<int64_t> *shapes;   // [n_samples * n_out * max_ndim]
  char *layouts;                  // [n_out * OPABI_LAYOUT_SIZE]
  int64_t *scratch_bytes;         // [3]
};

/// Calls `functions.setup` for the whole batch. Throws Error where it fails, or where it changed a slot
/// that was filled (OPABI-K-012). What it set itself is checked by the engine.
void CallSetupFunction(const Kernel &kernel, const Specialization &functions, void *instance,
                       int64_t n_samples, const SetupTables &tables);

}  // namespace opabi
