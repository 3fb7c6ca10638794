// SPDX-License-Identifier: Apache-2.0
#include "dali/spec.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/error.h"

namespace opabi {
namespace {

constexpr char kDecimal[] = "0123456789";
constexpr size_t kShown = 80;  // characters of a faulty text that a message shows

[[noreturn]] void Refuse(const std::string &text, const std::string &found) {
  throw Error(Kind::kValue, "",
              "opabi.call: a constant must be \"NAME DTYPE SHAPE DATA\", found " + found +
                  " in \"" +
                  CleanMessage(text.data(), static_cast<int64_t>(std::min(text.size(), kShown))) +
                  "\". Let opabi write the pipeline's constants.");
}

std::vector<std::string> Split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<int64_t> ParseShape(const std::string &text, const std::string &field) {
  std::vector<int64_t> shape;
  if (field == "-") return shape;
  for (const std::string &extent : Split(field, ',')) {
    if (extent.empty() || extent.size() > 15 ||
        extent.find_first_not_of(kDecimal) != std::string::npos) {
      Refuse(text, "the extent '" + extent + "'");
    }
    shape.push_back(std::stoll(extent));
  }
  if (shape.size() > OPABI_MAX_NDIM) Refuse(text, "rank " + std::to_string(shape.size()));
  return shape;
}

int Digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// The number of bytes that `constant` has, if `digits` hexadecimal digits can hold them.
size_t CheckedBytes(const std::string &text, const Constant &constant, size_t digits) {
  int64_t bytes = DtypeSize(constant.dtype);
  for (int64_t extent : constant.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) Refuse(text, "a shape too large");
  }
  if (digits % 2 || digits / 2 != static_cast<size_t>(bytes)) {
    Refuse(text,
           std::to_string(digits) + " digits of data for " + std::to_string(bytes) + " bytes");
  }
  return digits / 2;
}

}  // namespace

int Constant::input() const {
  if (name.empty() || name.size() > 2 || name.find_first_not_of(kDecimal) != std::string::npos)
    return -1;
  return std::stoi(name);
}

opabi_tensor Constant::tensor() {
  strides_.resize(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides_[d] = stride;
    stride *= shape[d];
  }
  return {data.data(),  OPABI_CPU,       0, static_cast<int32_t>(shape.size()), dtype,
          shape.data(), strides_.data(), 0};
}

Constant ParseConstant(const std::string &text) {
  const std::vector<std::string> fields = Split(text, ' ');
  if (fields.size() != 4) Refuse(text, std::to_string(fields.size()) + " fields");
  Constant constant;
  constant.name = fields[0];
  constant.dtype = DtypeFromName(fields[1]);
  if (constant.dtype == OPABI_DTYPE_ANY) Refuse(text, "the dtype '" + fields[1] + "'");
  constant.shape = ParseShape(text, fields[2]);
  const std::string &digits = fields[3] == "-" ? std::string() : fields[3];
  constant.data.resize(CheckedBytes(text, constant, digits.size()));
  for (size_t i = 0; i < constant.data.size(); i++) {
    const int high = Digit(digits[2 * i]), low = Digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) Refuse(text, "data that is not hexadecimal");
    constant.data[i] = static_cast<char>(high << 4 | low);
  }
  return constant;
}

}  // namespace opabi
