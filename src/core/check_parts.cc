// SPDX-License-Identifier: Apache-2.0
#include "core/check_parts.h"

#include <cstring>

#include "core/error.h"
#include "core/utf8.h"

namespace opabi {
namespace {

/// As in the C locale, whatever the process has set.
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

int64_t BoundedLength(const char *text, int64_t limit) {
  return static_cast<int64_t>(strnlen(text, static_cast<size_t>(limit) + 1));
}

}  // namespace

std::string NameFault(const char *name) {
  if (!name) return "is NULL.";
  int64_t n = BoundedLength(name, kMaxName);
  if (n == 0) return "is empty.";
  if (n > kMaxName) return "is longer than " + std::to_string(kMaxName) + " bytes.";
  for (int64_t i = 0; i < n; i++) {
    bool digit = name[i] >= '0' && name[i] <= '9';
    if (IsNameStart(name[i]) || (i > 0 && digit)) continue;
    return "is '" + CleanMessage(name, n) + "', expected [A-Za-z_][A-Za-z0-9_]*.";
  }
  return "";
}

std::string TextFault(const char *text, int64_t limit) {
  int64_t n = BoundedLength(text, limit);
  if (n > limit) return "is longer than " + std::to_string(limit) + " bytes, or has no NUL.";
  for (int64_t at = 0; at < n;) {
    Utf8Char character = ReadUtf8(text + at, n - at);
    if (!character.valid) return "is not UTF-8: see byte " + std::to_string(at) + ".";
    at += character.bytes;
  }
  return "";
}

bool Aligned(const void *pointer, size_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % to == 0;
}

std::string ArgumentLabel(const opabi_kernel &kernel, int32_t arg) {
  const char *name = kernel.args[arg].name;
  std::string label = "argument " + std::to_string(arg);
  return NameFault(name).empty() ? label + " '" + name + "'" : label;
}

}  // namespace opabi
