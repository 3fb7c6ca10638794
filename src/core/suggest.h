// SPDX-License-Identifier: Apache-2.0
// What somebody may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opabi {

/// The one of `names` that is at most two letters off, or "".
std::string SuggestName(std::string_view word, const std::vector<std::string> &names);

/// The dtype that a word most likely stands for: "float" -> "float32", "u8" and "unit8" -> "uint8";
/// "" if none is near.
std::string SuggestDtype(std::string_view word);

}  // namespace opabi
