// SPDX-License-Identifier: Apache-2.0
#include "core/suggest.h"

#include <algorithm>
#include <cctype>

#include "core/dtype.h"

namespace opabi {
namespace {

/// Names of other languages and libraries, in lower case.
constexpr struct {
  std::string_view word, dtype;
} kAliases[] = {
    {"float", "float32"},   {"single", "float32"},  {"double", "float64"},  {"half", "float16"},
    {"int", "int64"},       {"long", "int64"},      {"short", "int16"},     {"integer", "int64"},
    {"uint", "uint64"},     {"char", "int8"},       {"uchar", "uint8"},     {"byte", "uint8"},
    {"boolean", "bool"},    {"size_t", "uint64"},   {"str", "uint8"},       {"string", "uint8"},
    {"f16", "float16"},     {"f32", "float32"},     {"f64", "float64"},     {"i8", "int8"},
    {"i16", "int16"},       {"i32", "int32"},       {"i64", "int64"},       {"u8", "uint8"},
    {"u16", "uint16"},      {"u32", "uint32"},      {"u64", "uint64"},      {"uint8_t", "uint8"},
    {"uint16_t", "uint16"}, {"uint32_t", "uint32"}, {"uint64_t", "uint64"}, {"int8_t", "int8"},
    {"int16_t", "int16"},   {"int32_t", "int32"},   {"int64_t", "int64"},   {"bool_", "bool"},
};

/// How many letters must be inserted, removed, replaced or swapped with the next to make `b` of
/// `a`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) {
    for (size_t j = 0; j <= b.size(); j++) {
      size_t &best = distance[i][j];
      if (i == 0 || j == 0) {
        best = i + j;
        continue;
      }
      best = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                       distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string SuggestName(std::string_view word, const std::vector<std::string> &names) {
  constexpr size_t kLongest = 255;
  std::string nearest;
  size_t least = std::min<size_t>(3, word.size());  // three wrong letters make another word
  if (word.size() > kLongest) return "";
  for (const std::string &name : names) {
    const size_t distance = EditDistance(word, name);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string SuggestDtype(std::string_view word) {
  std::string lower(word);
  for (char &c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto &alias : kAliases) {
    if (alias.word == lower) return std::string(alias.dtype);
  }
  std::vector<std::string> names;
  for (uint32_t dtype : kDtypes) names.push_back(DtypeName(dtype));
  return SuggestName(lower, names);
}

}  // namespace opabi
