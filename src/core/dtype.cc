// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "core/error.h"

namespace opabi {
namespace {

constexpr const char *kNames[] = {"bool",  "uint8", "uint16", "uint32",  "uint64",  "int8",
                                  "int16", "int32", "int64",  "float16", "float32", "float64"};
static_assert(std::size(kNames) == std::size(kDtypes), "one name for each of kDtypes");

enum Code : uint32_t { kSigned = 0, kUnsigned = 1, kFloat = 2, kBool = 6 };  // DLPack's

Code CodeOf(uint32_t dtype) { return static_cast<Code>(dtype & 0xFF); }

/// Any byte but 0 is true: reading one that is neither 0 nor 1 as a C++ bool is undefined.
struct Bool {
  uint8_t byte;
  template <typename T>
  explicit operator T() const {
    return static_cast<T>(byte != 0);
  }
};

struct Half {
  uint16_t bits;
  template <typename T>
  explicit operator T() const {
    int exponent = bits >> 10 & 31;
    int fraction = bits & 1023;
    float magnitude;
    if (exponent == 31) {
      magnitude = fraction ? std::numeric_limits<float>::quiet_NaN()
                           : std::numeric_limits<float>::infinity();
    } else if (exponent == 0) {
      magnitude = std::ldexp(static_cast<float>(fraction), -24);
    } else {
      magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    }
    return static_cast<T>(bits & 0x8000 ? -magnitude : magnitude);
  }
};

/// Calls `use` with a value of the C++ type of `dtype`.
template <typename Use>
void WithType(uint32_t dtype, Use &&use) {
  switch (dtype) {
    case OPABI_BOOL: return use(Bool{});
    case OPABI_UINT8: return use(uint8_t{});
    case OPABI_UINT16: return use(uint16_t{});
    case OPABI_UINT32: return use(uint32_t{});
    case OPABI_UINT64: return use(uint64_t{});
    case OPABI_INT8: return use(int8_t{});
    case OPABI_INT16: return use(int16_t{});
    case OPABI_INT32: return use(int32_t{});
    case OPABI_INT64: return use(int64_t{});
    case OPABI_FLOAT16: return use(Half{});
    case OPABI_FLOAT32: return use(float{});
    case OPABI_FLOAT64: return use(double{});
    default: break;
  }
}

/// By memcpy, since the caller's arrays may lie at any address.
template <typename From, typename To>
void ConvertLoop(const char *source, char *target, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    From value;
    std::memcpy(&value, source + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    To converted = static_cast<To>(value);
    std::memcpy(target + i * static_cast<int64_t>(sizeof(To)), &converted, sizeof(To));
  }
}

}  // namespace

bool IsDtype(uint32_t dtype) {
  return std::find(std::begin(kDtypes), std::end(kDtypes), dtype) != std::end(kDtypes);
}

std::string DtypeName(uint32_t dtype) {
  if (dtype == OPABI_DTYPE_ANY) return "any";
  for (size_t i = 0; i < std::size(kDtypes); i++) {
    if (kDtypes[i] == dtype) return kNames[i];
  }
  char text[24];
  std::snprintf(text, sizeof text, "dtype 0x%08X", static_cast<unsigned>(dtype));
  return text;
}

uint32_t DtypeFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kDtypes); i++) {
    if (kNames[i] == name) return kDtypes[i];
  }
  return OPABI_DTYPE_ANY;
}

bool Converts(uint32_t from, uint32_t to) {
  if (!IsDtype(from) || !IsDtype(to)) return false;
  if (from == to) return true;
  Code code = CodeOf(from);
  bool widens = DtypeSize(from) < DtypeSize(to);
  switch (CodeOf(to)) {
    case kBool: return false;
    case kFloat: return to != OPABI_FLOAT16 && (code != kFloat || widens);
    case kUnsigned: return code == kBool || (code == kUnsigned && widens);
    case kSigned: return code == kBool || (code != kFloat && widens);
  }
  return false;
}

void ConvertElements(const void *source, uint32_t from, void *target, uint32_t to, int64_t n) {
  if (!Converts(from, to)) {
    throw Error(Kind::kType, "OPABI-H-013",
                DtypeName(from) + " does not convert to " + DtypeName(to) + " without loss");
  }
  if (n <= 0) return;
  if (from == to) {
    std::memcpy(target, source, static_cast<size_t>(n * DtypeSize(from)));
    return;
  }
  WithType(from, [&](auto from_value) {
    WithType(to, [&](auto to_value) {
      if constexpr (std::is_arithmetic_v<decltype(to_value)>) {
        ConvertLoop<decltype(from_value), decltype(to_value)>(static_cast<const char *>(source),
                                                              static_cast<char *>(target), n);
      }
    });
  });
}

}  // namespace opabi
