// SPDX-License-Identifier: Apache-2.0
#include "core/error.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

#include "core/utf8.h"
#include "descriptors.h"

namespace opabi {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

std::string Clean(const std::string &bytes) {
  return CleanMessage(bytes.data(), static_cast<int64_t>(bytes.size()));
}

TEST_CASE("test_error_rule_stands_before_message") {
  Error error(Kind::kValue, "OPABI-D-004", "too new");
  CHECK(std::string(error.what()) == "[OPABI-D-004] too new");
  CHECK(std::string(error.message()) == "too new");
  CHECK(std::string(Error(Kind::kValue, "", "no rule").message()) == "no rule");
}

TEST_CASE("test_status_kinds_as_the_header_tells") {  // OPABI-H-007
  CHECK(StatusKind(OPABI_ERROR_VALUE) == Kind::kValue);
  CHECK(StatusKind(OPABI_ERROR_TYPE) == Kind::kType);
  CHECK(StatusKind(OPABI_ERROR_INDEX) == Kind::kIndex);
  CHECK(StatusKind(OPABI_ERROR_UNSUPPORTED) == Kind::kType);
  CHECK(StatusKind(OPABI_ERROR_OUT_OF_MEMORY) == Kind::kMemory);
  for (int32_t status : {int32_t{OPABI_ERROR_DEVICE}, int32_t{OPABI_ERROR_INTERNAL},
                         int32_t{OPABI_ERROR_ABI}, 0, -5, 9, 12345, INT32_MIN, INT32_MAX}) {
    CHECK(StatusKind(status) == Kind::kRuntime);
  }
}

TEST_CASE("test_status_names_tell_what_was_returned") {
  CHECK(StatusName(OPABI_ERROR_VALUE) == "OPABI_ERROR_VALUE");
  CHECK(StatusName(0).find("never reported success") != std::string::npos);
  CHECK(StatusName(-5) == "private error -5");
  CHECK(StatusName(INT32_MIN) == "private error -2147483648");
  CHECK(StatusName(77).find("77") != std::string::npos);
  std::set<std::string> names;
  for (int32_t status = -1; status <= 9; status++) names.insert(StatusName(status));
  CHECK(names.size() == 11);
}

TEST_CASE("test_clean_message_good_text_unchanged") {
  for (const char *text :
       {"", "no face", "d\xC3\xA9j\xC3\xA0", "\xE2\x82\xAC \xF0\x9F\x98\x80", "two\nlines"}) {
    CHECK(Clean(text) == text);
  }
}

TEST_CASE("test_clean_message_without_nul_ends_with_the_buffer") {
  MemoryEnd buffer(std::string(64, 'x'));
  CHECK(CleanMessage(buffer.As<char>(), 64) == std::string(64, 'x'));
  CHECK(Clean(std::string("ab\0cd", 5)) == "ab");
}

TEST_CASE("test_clean_message_no_buffer_empty") {
  CHECK(CleanMessage(nullptr, 100) == "");
  CHECK(CleanMessage("text", 0) == "");
  CHECK(CleanMessage("text", -1) == "");
}

TEST_CASE("test_clean_message_wrong_bytes_replaced") {
  CHECK(Clean("a\xFF"
              "b") == "a" + kReplacement + "b");
  CHECK(Clean("a\xC3(") == "a" + kReplacement + "(");
  CHECK(Clean("\xED\xA0\x80!") == kReplacement + kReplacement + kReplacement + "!");
}

TEST_CASE("test_clean_message_cut_character_dropped") {
  CHECK(Clean("ab\xC3") == "ab");
  CHECK(Clean("ab\xE2\x82") == "ab");
  CHECK(Clean("ab\xF0\x9F\x98") == "ab");
  CHECK(Clean("\xE2") == "");
}

TEST_CASE("test_utf8_each_code_point_read_once") {
  for (uint32_t code = 1; code <= 0x10FFFF; code += code < 0x11000 ? 1 : 251) {
    char text[4];
    int64_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int64_t i = n - 1, rest = code; i >= 0; i--, rest >>= 6)
      text[i] = static_cast<char>(0x80 | (rest & 0x3F));
    constexpr unsigned kLead[] = {0x00, 0xC0, 0xE0, 0xF0};
    text[0] = static_cast<char>(kLead[n - 1] | code >> (6 * (n - 1)));
    Utf8Char read = ReadUtf8(text, n);
    bool surrogate = code >= 0xD800 && code < 0xE000;
    bool right = surrogate ? !read.valid && !read.cut : read.valid && read.bytes == n;
    for (int64_t part = 1; part < n && !surrogate; part++)
      right = right && ReadUtf8(text, part).cut;
    if (!right) FAIL_CHECK("code point ", code);
  }
}

TEST_CASE("test_utf8_overlong_forms_not_valid") {
  for (const char *text : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    Utf8Char read = ReadUtf8(text, static_cast<int64_t>(std::strlen(text)));
    CHECK(!read.valid);
    CHECK(!read.cut);
  }
}

}  // namespace
}  // namespace opabi
