// SPDX-License-Identifier: Apache-2.0
// Element types: names, sizes, and which conversions hold every value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "opabi/opabi.h"

namespace opabi {

inline constexpr uint32_t kDtypes[] = {OPABI_BOOL,   OPABI_UINT8,   OPABI_UINT16,  OPABI_UINT32,
                                       OPABI_UINT64, OPABI_INT8,    OPABI_INT16,   OPABI_INT32,
                                       OPABI_INT64,  OPABI_FLOAT16, OPABI_FLOAT32, OPABI_FLOAT64};

inline constexpr int64_t DtypeSize(uint32_t dtype) { return (dtype >> 8 & 0xFF) / 8; }

/// True for the twelve element types of ABI 1.0.
bool IsDtype(uint32_t dtype);

/// "uint8"; "any" for OPABI_DTYPE_ANY; "dtype 0x..." for what is none.
std::string DtypeName(uint32_t dtype);

/// The type of that name, or OPABI_DTYPE_ANY if there is none.
uint32_t DtypeFromName(std::string_view name);

/// The conversions of OPABI-H-013: every value of `from` has an equal in `to`, or `to` is float32 or
/// float64 and `from` a bool or integer type. Nothing converts to float16, which integers overflow.
bool Converts(uint32_t from, uint32_t to);

/// Converts n elements. Throws Error (kType) unless Converts(from, to).
void ConvertElements(const void *source, uint32_t from, void *target, uint32_t to, int64_t n);

}  // namespace opabi
