// SPDX-License-Identifier: Apache-2.0
// Named arguments: defaults, constants and per-sample values, converted to what was declared and
// broadcast to a table with one row for each sample (OPABI-H-013).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/kernel.h"

namespace opabi {

/// Who chose a value's dtype, which decides what it converts to. Of several values the strictest holds,
/// which is the last here.
enum class Origin : uint8_t {
  kNumber,  // nobody (bool, int64, uint64 or float64 is a guess): it takes any type that holds it
  kTyped,   // the caller: it widens, and no more
  kText,    // it is a string: uint8 of rank 1 and nothing else, for its bytes are no numbers
};

/// A tensor that owns what it points to.
struct OwnedTensor {
  opabi_tensor tensor{};
  std::vector<char> data;
  std::vector<int64_t> shape, strides;
};

/// A copy of a contiguous value with the dtype that the argument declares. Throws Error (kType, kValue)
/// that begins with `label`.
std::unique_ptr<OwnedTensor> ConvertValue(const opabi_arg &declared, const opabi_tensor &value,
                                          Origin origin, const std::string &label);

class Arguments {
 public:
  explicit Arguments(const Kernel &kernel);

  /// The number of the argument of that name. Throws Error (kType) that lists the names there are.
  int Find(const std::string &name) const;

  /// Throws Error (kType) where a name is unknown, or one is missing that has no default.
  void CheckNames(const std::vector<std::string> &given) const;

  /// Copies a value that all samples share. Throws Error (kType, kValue) that names the argument.
  void SetConstant(int arg, const opabi_tensor &value, Origin origin);

  /// Back to the default value, or to none.
  void Reset(int arg);

  void Begin(int64_t n_samples);

  /// Per-sample values for this batch: dtype, rank and device of the port that feeds the argument.
  void Describe(int arg, const PortInfo &info, Origin origin);
  void Set(int64_t sample, int arg, const void *data, const int64_t *shape) {
    Slot &slot = slots_[arg];
    table_.Set(sample, arg, slot.info, const_cast<void *>(data), shape);
  }

  /// Completes the table; throws Error (kType) if a required argument has no value.
  void Fill();

  /// After SetConstant.
  const opabi_tensor &constant(int arg) const { return slots_[arg].constant->tensor; }

  const Table &table() const { return table_; }
  uint32_t dtype(int arg) const { return slots_[arg].dtype; }  // after Fill
  int32_t ndim(int arg) const { return slots_[arg].ndim; }

 private:
  struct Slot {
    std::unique_ptr<OwnedTensor> constant;  // the caller's, else the default's, else none
    bool per_sample = false;                // in this batch
    Origin origin = Origin::kTyped;         // of the per-sample values
    int64_t filled = 0;                     // rows of the table that hold the constant
    PortInfo info;                          // of the per-sample values as they came
    uint32_t dtype = 0;                     // as the kernel sees it
    int32_t ndim = 0;
    std::vector<char> converted;  // of the per-sample values, for this batch
  };

  const opabi_arg &declared(int arg) const { return kernel_.descriptor().args[arg]; }
  std::string Label(int arg) const;
  [[noreturn]] void ThrowMissing(int arg) const;
  void ConvertSamples(int arg);

  const Kernel &kernel_;
  std::vector<Slot> slots_;
  Table table_;
  int64_t n_samples_ = 0;
};

}  // namespace opabi
