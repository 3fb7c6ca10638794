// SPDX-License-Identifier: Apache-2.0
// One character of UTF-8 at a time, for text that kernels hand over.
#pragma once

#include <algorithm>
#include <cstdint>

namespace opabi {

struct Utf8Char {
  int64_t bytes;  // that it has, or has before it goes wrong
  bool valid;
  bool cut;  // right as far as it goes, but `n` ends before it does
};

/// The character at the start of `text`, which has n >= 1 bytes. Overlong forms, surrogates and
/// numbers above 0x10FFFF are not valid.
inline Utf8Char ReadUtf8(const char *text, int64_t n) {
  auto byte = [text](int64_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return {1, true, false};
  if (first < 0xC2 || first > 0xF4) return {1, false, false};
  int64_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (int64_t i = 1; i < std::min(length, n); i++) {
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && first == 0xE0) low = 0xA0;
    if (i == 1 && first == 0xED) high = 0x9F;
    if (i == 1 && first == 0xF0) low = 0x90;
    if (i == 1 && first == 0xF4) high = 0x8F;
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  if (length > n) return {n, false, true};
  return {length, true, false};
}

}  // namespace opabi
