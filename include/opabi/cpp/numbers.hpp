// SPDX-License-Identifier: Apache-2.0
// Element types: C++ types of dtypes, their names, float16.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <opabi/opabi.h>

namespace opabi {

/// Storage of a float16 element; computes as float.
struct float16 {
  uint16_t bits;
  float16() = default;
  float16(float value) : bits(round(value)) {}  // NOLINT: a number like the others
  operator float() const {                      // NOLINT
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                   mantissa = bits & 1023u;
    if (exponent == 0) {
      const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -tiny : tiny;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return from_bits<float>(sign | wide << 23 | mantissa << 13);
  }

 private:
  template <class To, class From>
  static To from_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
  }
  static uint16_t round(float value) {
    const uint32_t all = from_bits<uint32_t>(value), size = all & 0x7FFFFFFFu,
                   sign = all >> 16 & 0x8000u;
    uint32_t half;
    if (size > 0x7F800000u) {  // NaN
      half = 0x7E00u;
    } else if (size >= 0x477FF000u) {  // rounds to more than 65504
      half = 0x7C00u;
    } else if (size < 0x38800000u) {  // subnormal: 0.5f has the step of float16's smallest number
      half = from_bits<uint32_t>(from_bits<float>(size) + 0.5f) - 0x3F000000u;
    } else {
      half = (size - 0x38000000u + 0xFFFu + (size >> 13 & 1u)) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
  }
};

/// The dtype of a C++ number type.
template <class T>
constexpr uint32_t dtype_of() {
  using U = std::remove_cv_t<T>;
  constexpr uint32_t bits = 8 * sizeof(U);
  static_assert(std::is_arithmetic_v<U> || std::is_same_v<U, float16>,
                "opabi: not an element type");
  static_assert(bits <= 64, "opabi: there is no element type of more than 64 bits");
  if (std::is_same_v<U, bool>) return OPABI_BOOL;
  const uint32_t code = !std::is_integral_v<U> ? 2 : std::is_unsigned_v<U> ? 1 : 0;
  return code | bits << 8 | 1u << 16;
}

inline const char *dtype_name(uint32_t dtype) {
  switch (dtype) {
    case OPABI_BOOL: return "bool";
    case OPABI_INT8: return "int8";
    case OPABI_INT16: return "int16";
    case OPABI_INT32: return "int32";
    case OPABI_INT64: return "int64";
    case OPABI_UINT8: return "uint8";
    case OPABI_UINT16: return "uint16";
    case OPABI_UINT32: return "uint32";
    case OPABI_UINT64: return "uint64";
    case OPABI_FLOAT16: return "float16";
    case OPABI_FLOAT32: return "float32";
    case OPABI_FLOAT64: return "float64";
    default: return "an unknown dtype";
  }
}

/// "uint8 of rank 3", or "uint8" for any rank.
inline std::string type_name(uint32_t dtype, int32_t ndim) {
  return dtype_name(dtype) + (ndim == OPABI_NDIM_ANY ? "" : " of rank " + std::to_string(ndim));
}

}  // namespace opabi
