// SPDX-License-Identifier: Apache-2.0
// Parts of the rules of kind D. A fault is what a message says is wrong, or "".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "opabi/opabi.h"

namespace opabi {

inline constexpr int64_t kMaxName = 255;  // bytes, the NUL aside

/// "is NULL.", for example.
std::string NameFault(const char *name);

/// Of a text of at most `limit` bytes; reads at most one byte beyond.
std::string TextFault(const char *text, int64_t limit);

bool Aligned(const void *pointer, size_t to);

/// "argument 2 'sigma'".
std::string ArgumentLabel(const opabi_kernel &kernel, int32_t arg);

std::string ArgumentsFault(const opabi_kernel &kernel);  // D-010
std::string DefaultsFault(const opabi_kernel &kernel);   // D-018, where D-010 is kept

}  // namespace opabi
