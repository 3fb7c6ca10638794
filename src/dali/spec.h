// SPDX-License-Identifier: Apache-2.0
// Constants as they stand in a pipeline's definition: one line of text each,
//
//   NAME DTYPE SHAPE DATA      e.g.  "gain float32 - 00000040", "0 uint8 2,3 0102030405ff"
//
// separated by single spaces. NAME is an argument's name or an input's number. SHAPE is "-" for rank 0, else
// extents with commas; DATA is the elements, row-major and little-endian, in lower-case hexadecimal digits, or "-"
// for no element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opabi/opabi.h"

namespace opabi {

struct Constant {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
  std::vector<char> data;

  /// The number of the input, or -1: an argument.
  int input() const;

  /// Valid as long as this object is; strides are those of a contiguous tensor.
  opabi_tensor tensor();

 private:
  std::vector<int64_t> strides_;
};

/// Throws Error (kValue) that shows the text where it is not exactly of that form.
Constant ParseConstant(const std::string &text);

}  // namespace opabi
