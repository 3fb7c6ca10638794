// SPDX-License-Identifier: Apache-2.0
// The rules of kind D for a kernel's declared arguments; the others stand in check.cc.
#include <algorithm>
#include <map>
#include <string_view>

#include "core/check_parts.h"
#include "core/dtype.h"

namespace opabi {
namespace {

constexpr int64_t kMaxDefaultBytes = int64_t{1} << 30;

std::string CountFault(const opabi_kernel &kernel) {
  std::string count = "n_args is " + std::to_string(kernel.n_args);
  if (kernel.n_args < 0 || kernel.n_args > OPABI_MAX_PORTS) return count + ", expected 0 to 64.";
  if (kernel.n_args == 0) return "";
  if (!kernel.args) return count + " and args is NULL.";
  if (!Aligned(kernel.args, 8)) return count + " and args is at no multiple of 8.";
  return "";
}

std::string ArgumentFault(const opabi_arg &arg) {
  std::string name_fault = NameFault(arg.name);
  if (!name_fault.empty()) return "its name " + name_fault;
  if (arg.dtype != OPABI_DTYPE_ANY && !IsDtype(arg.dtype)) {
    return "its dtype is " + DtypeName(arg.dtype) +
           ", expected one of OPABI_BOOL to OPABI_FLOAT64 or OPABI_DTYPE_ANY.";
  }
  if (arg.ndim < OPABI_NDIM_ANY || arg.ndim > OPABI_MAX_NDIM) {
    return "its ndim is " + std::to_string(arg.ndim) + ", expected 0 to 15 or OPABI_NDIM_ANY (-1).";
  }
  if (arg.reserved != 0) return "reserved is " + std::to_string(arg.reserved) + ", expected 0.";
  return "";
}

std::string ShapeFault(const opabi_tensor &tensor) {
  if (tensor.ndim == 0) return "";
  const char *what = tensor.shape ? "strides" : "shape";
  if (!tensor.shape || !tensor.strides) {
    return std::string(what) + " is NULL, but ndim is " + std::to_string(tensor.ndim) + ".";
  }
  if (!Aligned(tensor.shape, 8) || !Aligned(tensor.strides, 8)) {
    return "shape or strides is at no multiple of 8.";
  }
  for (int32_t d = 0; d < tensor.ndim; d++) {
    if (tensor.shape[d] >= 0) continue;
    return "extent " + std::to_string(d) + " is " + std::to_string(tensor.shape[d]) + ".";
  }
  return "";
}

/// Of a tensor whose shape is right.
std::string DataFault(const opabi_tensor &tensor) {
  const int64_t *end = tensor.shape + tensor.ndim;
  bool empty = std::find(tensor.shape, end, 0) != end;
  int64_t size = DtypeSize(tensor.dtype);
  int64_t elements = 1;  // with 0 taken for 1, so that none of the others can overflow a product
  for (int32_t d = tensor.ndim - 1; d >= 0; d--) {
    int64_t extent = std::max<int64_t>(tensor.shape[d], 1);
    if (!empty && extent > 1 && tensor.strides[d] != elements) {
      return "stride " + std::to_string(d) + " is " + std::to_string(tensor.strides[d]) +
             ", expected " + std::to_string(elements) + ": it is not contiguous.";
    }
    if (extent > kMaxDefaultBytes / size / elements) return "it has more than 2^30 bytes.";
    elements *= extent;
  }
  if (empty) return "";
  if (!tensor.data) return "data is NULL.";
  if (!Aligned(tensor.data, static_cast<size_t>(size))) {
    return "data is at no multiple of " + std::to_string(size) + ", the size of an element.";
  }
  return "";
}

std::string DefaultFault(const opabi_arg &arg) {
  if (!Aligned(arg.default_value, 8)) return "it is at no multiple of 8.";
  const opabi_tensor &tensor = *arg.default_value;
  if (tensor.device_type != OPABI_CPU) {
    return "device_type is " + std::to_string(tensor.device_type) + ", expected OPABI_CPU (1).";
  }
  if (!IsDtype(tensor.dtype)) return "its dtype is " + DtypeName(tensor.dtype) + ".";
  if (arg.dtype != OPABI_DTYPE_ANY && arg.dtype != tensor.dtype) {
    return "its dtype is " + DtypeName(tensor.dtype) + ", the argument's " + DtypeName(arg.dtype) +
           ".";
  }
  if (tensor.ndim < 0 || tensor.ndim > OPABI_MAX_NDIM) {
    return "ndim is " + std::to_string(tensor.ndim) + ", expected 0 to 15.";
  }
  if (arg.ndim != OPABI_NDIM_ANY && arg.ndim != tensor.ndim) {
    return "ndim is " + std::to_string(tensor.ndim) + ", the argument's " +
           std::to_string(arg.ndim) + ".";
  }
  if (tensor.byte_offset != 0) {
    return "byte_offset is " + std::to_string(tensor.byte_offset) + ", expected 0: add it to data.";
  }
  std::string fault = ShapeFault(tensor);
  return fault.empty() ? DataFault(tensor) : fault;
}

}  // namespace

std::string ArgumentsFault(const opabi_kernel &kernel) {
  std::string fault = CountFault(kernel);
  if (!fault.empty()) return fault;
  std::map<std::string_view, int32_t> numbers;
  for (int32_t a = 0; a < kernel.n_args; a++) {
    fault = ArgumentFault(kernel.args[a]);
    if (!fault.empty()) return ArgumentLabel(kernel, a) + ": " + fault;
    auto [entry, is_new] = numbers.emplace(kernel.args[a].name, a);
    if (!is_new) {
      return ArgumentLabel(kernel, a) + ": argument " + std::to_string(entry->second) +
             " has the same name. Rename one.";
    }
  }
  return "";
}

std::string DefaultsFault(const opabi_kernel &kernel) {
  for (int32_t a = 0; a < kernel.n_args; a++) {
    if (!kernel.args[a].default_value) continue;
    std::string fault = DefaultFault(kernel.args[a]);
    if (!fault.empty()) return ArgumentLabel(kernel, a) + ": its default value is wrong: " + fault;
  }
  return "";
}

}  // namespace opabi
