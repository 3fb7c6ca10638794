// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "thrown.h"

namespace opabi {
namespace {

/// Writes one element, converts it, reads one.
template <typename To, typename From>
To Convert(From value, uint32_t from, uint32_t to) {
  REQUIRE(sizeof(From) == static_cast<size_t>(DtypeSize(from)));
  REQUIRE(sizeof(To) == static_cast<size_t>(DtypeSize(to)));
  To converted;
  std::memset(&converted, 0xAA, sizeof converted);
  ConvertElements(&value, from, &converted, to, 1);
  return converted;
}

/// The conversions as the names tell them: "uint8" has 8 bits and no sign.
bool ConvertsByName(const std::string &from, const std::string &to) {
  auto bits = [](const std::string &name) {
    return std::stoi(name.substr(name.find_first_of("123468")));
  };
  auto is = [](const std::string &name, const char *kind) { return name.rfind(kind, 0) == 0; };
  if (from == to) return true;
  if (to == "bool" || to == "float16") return false;
  if (from == "bool") return true;
  if (is(to, "float")) return is(from, "float") ? bits(from) < bits(to) : true;
  if (is(from, "float") || bits(from) >= bits(to)) return false;
  return is(to, "int") || is(from, "uint");
}

TEST_CASE("test_dtype_names_each_found_again") {
  std::set<std::string> names;
  for (uint32_t dtype : kDtypes) {
    CHECK(IsDtype(dtype));
    CHECK(DtypeFromName(DtypeName(dtype)) == dtype);
    names.insert(DtypeName(dtype));
  }
  CHECK(names == std::set<std::string>{"bool", "uint8", "uint16", "uint32", "uint64", "int8",
                                       "int16", "int32", "int64", "float16", "float32", "float64"});
}

TEST_CASE("test_dtype_none_told_by_number") {
  CHECK(DtypeName(OPABI_DTYPE_ANY) == "any");
  CHECK(DtypeName(0x00014005) == "dtype 0x00014005");  // DLPack's complex64
  CHECK(DtypeName(0x00041002) == "dtype 0x00041002");  // four lanes
  for (const char *name : {"", "any", "uint", "uint8 ", "UINT8", "complex64"}) {
    CHECK(DtypeFromName(name) == OPABI_DTYPE_ANY);
  }
  for (uint32_t word : {uint32_t{OPABI_DTYPE_ANY}, uint32_t{OPABI_DTYPE_UNSET}, 0x00014005u, ~0u}) {
    CHECK(!IsDtype(word));
  }
}

TEST_CASE("test_dtype_size_is_that_of_the_c_type") {
  CHECK(DtypeSize(OPABI_BOOL) == 1);
  CHECK(DtypeSize(OPABI_FLOAT16) == 2);
  CHECK(DtypeSize(OPABI_UINT32) == sizeof(uint32_t));
  CHECK(DtypeSize(OPABI_FLOAT64) == sizeof(double));
}

TEST_CASE("test_converts_each_pair_as_its_names_tell") {  // OPABI-H-013
  for (uint32_t from : kDtypes) {
    for (uint32_t to : kDtypes) {
      INFO(DtypeName(from), " to ", DtypeName(to));
      CHECK(Converts(from, to) == ConvertsByName(DtypeName(from), DtypeName(to)));
    }
    CHECK(!Converts(from, OPABI_DTYPE_ANY));
    CHECK(!Converts(0x00014005, from));
  }
  CHECK(!Converts(0x00014005, 0x00014005));
}

TEST_CASE("test_convert_extremes_kept") {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  CHECK(Convert<int64_t>(int8_t{-128}, OPABI_INT8, OPABI_INT64) == -128);
  CHECK(Convert<int64_t>(uint32_t{0xFFFFFFFF}, OPABI_UINT32, OPABI_INT64) == 4294967295);
  CHECK(Convert<uint64_t>(uint8_t{255}, OPABI_UINT8, OPABI_UINT64) == 255);
  CHECK(Convert<int16_t>(uint8_t{255}, OPABI_UINT8, OPABI_INT16) == 255);
  CHECK(Convert<double>(kLeast, OPABI_INT64, OPABI_FLOAT64) == -std::ldexp(1.0, 63));
  CHECK(Convert<float>(kMost, OPABI_UINT64, OPABI_FLOAT32) == std::ldexp(1.0f, 64));
  CHECK(Convert<double>(std::numeric_limits<float>::denorm_min(), OPABI_FLOAT32, OPABI_FLOAT64) ==
        std::ldexp(1.0, -149));
}

TEST_CASE("test_convert_bool_any_byte_but_zero_is_one") {
  for (uint8_t byte : {0, 1, 2, 255}) {
    CHECK(Convert<uint8_t>(byte, OPABI_BOOL, OPABI_UINT8) == (byte != 0));
    CHECK(Convert<double>(byte, OPABI_BOOL, OPABI_FLOAT64) == (byte != 0));
  }
}

TEST_CASE("test_convert_float16_every_value_exact") {
  for (int bits = 0; bits < 65536; bits++) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double expected = exponent ? (1 + fraction / 1024.0) * std::pow(2, exponent - 15)
                               : fraction * std::pow(2, -24);
    if (exponent == 31) expected = fraction ? std::nan("") : HUGE_VAL;
    if (bits & 0x8000) expected = -expected;
    auto half = static_cast<uint16_t>(bits);
    double wide = Convert<double>(half, OPABI_FLOAT16, OPABI_FLOAT64);
    float narrow = Convert<float>(half, OPABI_FLOAT16, OPABI_FLOAT32);
    bool equal = std::isnan(expected) ? std::isnan(wide) && std::isnan(narrow)
                                      : wide == expected && static_cast<double>(narrow) == expected;
    if (equal && std::signbit(wide) == std::signbit(expected)) continue;
    FAIL_CHECK("float16 ", bits, " became ", wide, " and ", narrow);
  }
}

TEST_CASE("test_convert_misaligned_arrays_right") {
  std::vector<char> source(3 * sizeof(int32_t) + 1), target(3 * sizeof(double) + 1);
  int32_t values[3] = {-7, 0, 1 << 30};
  std::memcpy(source.data() + 1, values, sizeof values);
  ConvertElements(source.data() + 1, OPABI_INT32, target.data() + 1, OPABI_FLOAT64, 3);
  double converted[3];
  std::memcpy(converted, target.data() + 1, sizeof converted);
  for (int i = 0; i < 3; i++) CHECK(converted[i] == values[i]);
}

TEST_CASE("test_convert_no_elements_nothing_followed") {
  ConvertElements(nullptr, OPABI_INT8, nullptr, OPABI_INT8, 0);
  ConvertElements(nullptr, OPABI_INT8, nullptr, OPABI_FLOAT64, 0);
}

TEST_CASE("test_convert_with_loss_refused") {
  int64_t value = 1;
  int32_t target = 77;
  auto thrown = ThrownBy([&] { ConvertElements(&value, OPABI_INT64, &target, OPABI_INT32, 1); });
  CHECK(thrown.kind == Kind::kType);
  CHECK(thrown.rule == "OPABI-H-013");
  CHECK_SAYS(thrown, "int64 does not convert to int32");
  CHECK(target == 77);
}

}  // namespace
}  // namespace opabi
