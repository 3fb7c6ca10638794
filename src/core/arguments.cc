// SPDX-License-Identifier: Apache-2.0
#include "core/arguments.h"

#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "core/error.h"

namespace opabi {
namespace {

constexpr char kRule[] = "OPABI-H-013";

std::string NdimText(int32_t ndim) { return "rank " + std::to_string(ndim); }

bool IsInteger(uint32_t dtype) { return (dtype & 0xFF) <= 1; }
bool IsFloat(uint32_t dtype) { return (dtype & 0xFF) == 2; }

template <typename T>
bool StoreInteger(const char *source, bool is_unsigned, char *target) {
  T value;
  if (is_unsigned) {
    uint64_t wide;
    std::memcpy(&wide, source, sizeof wide);
    if (__builtin_add_overflow(wide, 0, &value)) return false;
  } else {
    int64_t wide;
    std::memcpy(&wide, source, sizeof wide);
    if (__builtin_add_overflow(wide, 0, &value)) return false;
  }
  std::memcpy(target, &value, sizeof value);
  return true;
}

/// One weak integer into another integer type; false where its value does not fit.
bool NarrowInteger(const char *source, uint32_t from, char *target, uint32_t to) {
  const bool is_unsigned = from == OPABI_UINT64;
  switch (to) {
    case OPABI_INT8: return StoreInteger<int8_t>(source, is_unsigned, target);
    case OPABI_INT16: return StoreInteger<int16_t>(source, is_unsigned, target);
    case OPABI_INT32: return StoreInteger<int32_t>(source, is_unsigned, target);
    case OPABI_INT64: return StoreInteger<int64_t>(source, is_unsigned, target);
    case OPABI_UINT8: return StoreInteger<uint8_t>(source, is_unsigned, target);
    case OPABI_UINT16: return StoreInteger<uint16_t>(source, is_unsigned, target);
    case OPABI_UINT32: return StoreInteger<uint32_t>(source, is_unsigned, target);
    default: return StoreInteger<uint64_t>(source, is_unsigned, target);
  }
}

/// What a number whose dtype is a guess may become, if its value fits: any type of its kind or a later
/// one.
bool NumberConverts(uint32_t from, uint32_t to) {
  if (to == OPABI_FLOAT16 && from != to) return false;
  if (from == to || from == OPABI_BOOL) return true;
  if (IsInteger(from)) return IsInteger(to) || IsFloat(to);
  return IsFloat(to);
}

/// Converts n elements where Converts or NumberConverts; false where a value does not fit.
bool ConvertNumbers(const char *source, uint32_t from, char *target, uint32_t to, int64_t n) {
  if (from == to || Converts(from, to)) {
    ConvertElements(source, from, target, to, n);
    return true;
  }
  if (IsInteger(from)) {
    for (int64_t i = 0; i < n; i++) {
      if (!NarrowInteger(source + 8 * i, from, target + DtypeSize(to) * i, to)) return false;
    }
    return true;
  }
  for (int64_t i = 0; i < n; i++) {  // float64 to float32: an overflow is no value of the caller's
    double wide;
    std::memcpy(&wide, source + 8 * i, sizeof wide);
    const float value = static_cast<float>(wide);
    if (std::isinf(value) && !std::isinf(wide)) return false;
    std::memcpy(target + 4 * i, &value, sizeof value);
  }
  return true;
}

bool TakesText(const opabi_arg &declared) {
  return (declared.dtype == OPABI_DTYPE_ANY || declared.dtype == OPABI_UINT8) &&
         (declared.ndim == OPABI_NDIM_ANY || declared.ndim == 1);
}

/// What a value's type has against it, or "".
std::string TypeFault(const opabi_arg &declared, uint32_t dtype, int32_t ndim, Origin origin) {
  if (origin == Origin::kText && !TakesText(declared)) {
    const bool any = declared.dtype == OPABI_DTYPE_ANY;
    return ": expected " + (any ? "a number" : DtypeName(declared.dtype)) +
           (declared.ndim == OPABI_NDIM_ANY ? "" : " of " + NdimText(declared.ndim)) +
           ", found a string.";
  }
  if (!IsDtype(dtype)) {
    return ": found " + DtypeName(dtype) + ", which is no element type of opabi.";
  }
  if (declared.ndim != OPABI_NDIM_ANY && declared.ndim != ndim) {
    return ": expected " + NdimText(declared.ndim) + ", found " + NdimText(ndim) + ".";
  }
  const uint32_t to = declared.dtype;
  if (to == OPABI_DTYPE_ANY || Converts(dtype, to)) return "";
  if (origin == Origin::kNumber && NumberConverts(dtype, to)) return "";
  return ": expected " + DtypeName(to) + ", found " + DtypeName(dtype) +
         ", which does not convert without loss. Cast it to " + DtypeName(to) + " first.";
}

}  // namespace

std::unique_ptr<OwnedTensor> ConvertValue(const opabi_arg &declared, const opabi_tensor &value,
                                          Origin origin, const std::string &label) {
  const std::string fault = TypeFault(declared, value.dtype, value.ndim, origin);
  if (!fault.empty()) throw Error(Kind::kType, kRule, label + fault);
  auto copy = std::make_unique<OwnedTensor>();
  copy->shape.assign(value.shape, value.shape + value.ndim);
  copy->strides.resize(value.ndim);
  int64_t n = 1;
  for (int d = value.ndim - 1; d >= 0; d--) {
    copy->strides[d] = n;
    n *= value.shape[d];
  }
  const uint32_t dtype = declared.dtype == OPABI_DTYPE_ANY ? value.dtype : declared.dtype;
  copy->data.resize(static_cast<size_t>(n * DtypeSize(dtype)));
  const char *source = static_cast<const char *>(value.data);
  if (n && !ConvertNumbers(source, value.dtype, copy->data.data(), dtype, n)) {
    throw Error(Kind::kValue, kRule, label + ": the value does not fit " + DtypeName(dtype) + ".");
  }
  copy->tensor = {copy->data.data(),    OPABI_CPU, 0, value.ndim, dtype, copy->shape.data(),
                  copy->strides.data(), 0};
  return copy;
}

Arguments::Arguments(const Kernel &kernel) : kernel_(kernel), slots_(kernel.descriptor().n_args) {
  for (size_t arg = 0; arg < slots_.size(); arg++) Reset(static_cast<int>(arg));
}

void Arguments::Reset(int arg) {
  slots_[arg].constant.reset();
  slots_[arg].filled = 0;
  if (const opabi_tensor *value = declared(arg).default_value)
    SetConstant(arg, *value, Origin::kTyped);
}

std::string Arguments::Label(int arg) const {
  return "kernel '" + kernel_.name() + "', argument '" + declared(arg).name + "'";
}

int Arguments::Find(const std::string &name) const {
  std::string known;
  for (size_t arg = 0; arg < slots_.size(); arg++) {
    if (name == declared(arg).name) return static_cast<int>(arg);
    known += (arg ? ", '" : "'") + std::string(declared(arg).name) + "'";
  }
  throw Error(Kind::kType, kRule,
              "kernel '" + kernel_.name() + "' has no argument '" + name + "'. " +
                  (known.empty() ? "It takes no arguments." : "It takes " + known + "."));
}

void Arguments::CheckNames(const std::vector<std::string> &given) const {
  std::vector<bool> has(slots_.size());
  for (const std::string &name : given) has[Find(name)] = true;
  for (size_t arg = 0; arg < slots_.size(); arg++) {
    if (!has[arg] && !slots_[arg].constant) ThrowMissing(static_cast<int>(arg));
  }
}

void Arguments::ThrowMissing(int arg) const {
  throw Error(Kind::kType, kRule,
              "kernel '" + kernel_.name() + "' needs the argument '" + declared(arg).name +
                  "', which has no default. Pass it by name.");
}

void Arguments::SetConstant(int arg, const opabi_tensor &value, Origin origin) {
  slots_[arg].constant = ConvertValue(declared(arg), value, origin, Label(arg));
  slots_[arg].filled = 0;
}

void Arguments::Begin(int64_t n_samples) {
  n_samples_ = n_samples;
  table_.Resize(n_samples, static_cast<int>(slots_.size()));
  for (Slot &slot : slots_) {
    if (slot.per_sample) slot.filled = 0;
    slot.per_sample = false;
  }
}

void Arguments::Describe(int arg, const PortInfo &info, Origin origin) {
  if (info.device_type != OPABI_CPU) {
    throw Error(
        Kind::kType, kRule,
        Label(arg) +
            ": expected a tensor in host memory, found one on the GPU. Arguments are always " +
            "in host memory, also for CUDA kernels: pass it as an input, or compute it on the CPU.");
  }
  const std::string fault = TypeFault(declared(arg), info.dtype, info.ndim, origin);
  if (!fault.empty()) throw Error(Kind::kType, kRule, Label(arg) + fault);
  slots_[arg].info = info;
  slots_[arg].origin = origin;
  slots_[arg].per_sample = true;
}

void Arguments::ConvertSamples(int arg) {
  Slot &slot = slots_[arg];
  int64_t total = 0;
  for (int64_t s = 0; s < n_samples_; s++) total += opabi_numel(&table_.at(s, arg));
  const int64_t size = DtypeSize(slot.dtype);
  slot.converted.resize(static_cast<size_t>(total * size));
  char *next = slot.converted.data();
  for (int64_t s = 0; s < n_samples_; s++) {
    opabi_tensor &tensor = table_.at(s, arg);
    const int64_t n = opabi_numel(&tensor);
    const char *source = static_cast<const char *>(tensor.data);
    if (!ConvertNumbers(source, tensor.dtype, next, slot.dtype, n)) {
      throw Error(Kind::kValue, kRule,
                  Label(arg) + (n_samples_ > 1 ? ", sample " + std::to_string(s) : "") +
                      ": the value does not fit " + DtypeName(slot.dtype) + ".");
    }
    tensor.data = next;
    tensor.dtype = slot.dtype;
    next += n * size;
  }
}

void Arguments::Fill() {
  const int n_args = static_cast<int>(slots_.size());
  for (int arg = 0; arg < n_args; arg++) {
    Slot &slot = slots_[arg];
    if (slot.per_sample) {
      const uint32_t want = declared(arg).dtype;
      slot.dtype = want == OPABI_DTYPE_ANY ? slot.info.dtype : want;
      slot.ndim = slot.info.ndim;
      if (slot.dtype != slot.info.dtype) ConvertSamples(arg);
      continue;
    }
    if (!slot.constant) ThrowMissing(arg);
    const opabi_tensor &value = slot.constant->tensor;
    slot.dtype = value.dtype;
    slot.ndim = value.ndim;
    for (; slot.filled < n_samples_; slot.filled++) table_.at(slot.filled, arg) = value;
  }
  table_.FillStrides();
}

}  // namespace opabi
