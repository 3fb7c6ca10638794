// SPDX-License-Identifier: Apache-2.0
// Named arguments: defaults, constants and per-sample values, converted to what was declared and broadcast
// to a table with one row for each sample (OPABI-H-013).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/kernel.h"

namespace opabi {

/// Whether a weak value's dtype (bool, int64, uint64 or float64) fits any type of its kind or a later one.
bool WeakConverts(uint32_t from, uint32_t to);

/// Converts n elements where Converts or WeakConverts; false where a value does not fit.
bool ConvertWeak(const char *source, uint32_t from, char *target, uint32_t to, int64_t n);

class Arguments {
 public:
  explicit Arguments(const Kernel &kernel);

  /// The number of the argument of that name. Throws Error (kType) that lists the names there are.
  int Find(const std::string &name) const;

  /// Copies a value that all samples share. `weak`: it comes from a Python scalar or a list of them, and
  /// takes the declared dtype if its values fit. Throws Error (kType, kValue) that names the argument.
  void SetConstant(int arg, const opabi_tensor &value, bool weak);

  /// Back to the default value, or to none.
  void Reset(int arg);

  void Begin(int64_t n_samples);

  /// Per-sample values for this batch: dtype, rank and device of the port that feeds the argument. `weak`
  /// as in SetConstant.
  void Describe(int arg, const PortInfo &info, bool weak = false);
  void Set(int64_t sample, int arg, const void *data, const int64_t *shape) {
    Slot &slot = slots_[arg];
    table_.Set(sample, arg, slot.info, const_cast<void *>(data), shape);
  }

  /// Completes the table; throws Error (kType) if a required argument has no value.
  void Fill();

  const opabi_tensor &constant(int arg) const {
    return slots_[arg].constant->tensor;
  }  // after SetConstant

  const Table &table() const { return table_; }
  uint32_t dtype(int arg) const { return slots_[arg].dtype; }  // after Fill
  int32_t ndim(int arg) const { return slots_[arg].ndim; }

 private:
  struct Value {  // an owned tensor
    opabi_tensor tensor{};
    std::vector<char> data;
    std::vector<int64_t> shape, strides;
  };
  struct Slot {
    std::unique_ptr<Value> constant;  // the caller's, else the default's, else none
    bool per_sample = false;          // in this batch
    bool weak = false;                // the per-sample values are
    int64_t filled = 0;               // rows of the table that hold the constant
    PortInfo info;                    // of the per-sample values as they came
    uint32_t dtype = 0;               // as the kernel sees it
    int32_t ndim = 0;
    std::vector<char> converted;  // of the per-sample values, for this batch
  };

  const opabi_arg &declared(int arg) const { return kernel_.descriptor().args[arg]; }
  std::string Label(int arg) const;
  void CheckType(int arg, uint32_t dtype, int32_t ndim, bool weak) const;
  void ConvertSamples(int arg);

  const Kernel &kernel_;
  std::vector<Slot> slots_;
  Table table_;
  int64_t n_samples_ = 0;
};

}  // namespace opabi
