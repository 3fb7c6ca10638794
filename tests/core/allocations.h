// SPDX-License-Identifier: Apache-2.0
// How often this binary has asked for memory with `new`.
#pragma once

#include <cstdint>

namespace opabi {

int64_t Allocations();

}  // namespace opabi
