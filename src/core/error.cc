// SPDX-License-Identifier: Apache-2.0
#include "core/error.h"

#include <cstring>

#include "core/utf8.h"
#include "opabi/opabi.h"

namespace opabi {

Kind StatusKind(int32_t status) {
  switch (status) {
    case OPABI_ERROR_VALUE: return Kind::kValue;
    case OPABI_ERROR_TYPE: return Kind::kType;
    case OPABI_ERROR_INDEX: return Kind::kIndex;
    case OPABI_ERROR_UNSUPPORTED: return Kind::kType;
    case OPABI_ERROR_OUT_OF_MEMORY: return Kind::kMemory;
    default: return Kind::kRuntime;
  }
}

std::string StatusName(int32_t status) {
  switch (status) {
    case OPABI_OK: return "OPABI_OK";
    case OPABI_ERROR_VALUE: return "OPABI_ERROR_VALUE";
    case OPABI_ERROR_TYPE: return "OPABI_ERROR_TYPE";
    case OPABI_ERROR_INDEX: return "OPABI_ERROR_INDEX";
    case OPABI_ERROR_UNSUPPORTED: return "OPABI_ERROR_UNSUPPORTED";
    case OPABI_ERROR_OUT_OF_MEMORY: return "OPABI_ERROR_OUT_OF_MEMORY";
    case OPABI_ERROR_DEVICE: return "OPABI_ERROR_DEVICE";
    case OPABI_ERROR_INTERNAL: return "OPABI_ERROR_INTERNAL";
    case OPABI_ERROR_ABI: return "OPABI_ERROR_ABI";
    case 0: return "returned 0: it never reported success";
    default: break;
  }
  if (status < 0) return "private error " + std::to_string(status);
  return "returned " + std::to_string(status) + ", which is no status of the ABI";
}

std::string CleanMessage(const char *text, int64_t capacity) {
  if (!text || capacity <= 0) return "";
  int64_t n = static_cast<int64_t>(strnlen(text, static_cast<size_t>(capacity)));
  std::string clean;
  for (int64_t at = 0; at < n;) {
    Utf8Char character = ReadUtf8(text + at, n - at);
    if (character.cut) break;
    if (character.valid) {
      clean.append(text + at, static_cast<size_t>(character.bytes));
    } else {
      clean += "\xEF\xBF\xBD";  // U+FFFD
    }
    at += character.bytes;
  }
  return clean;
}

}  // namespace opabi
