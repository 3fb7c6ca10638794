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

class Arguments {
 public:
  explicit Arguments(const Kernel &kernel);

  /// The number of the argument of that name. Throws Error (kType) that lists the names there are.
  int Find(const std::string &name) const;

  /// Copies a value that all samples share. `weak`: a Python scalar or list of them, which takes the
  /// declared dtype if its value fits. Throws Error (kType or kValue) that names the argument.
  void SetConstant(int arg, const opabi_tensor &value, bool weak);

  void Begin(int64_t n_samples);

  /// Per-sample values for this batch: dtype, rank and device of the port that feeds the argument.
  void Describe(int arg, const PortInfo &info);
  void Set(int64_t sample, int arg, const void *data, const int64_t *shape);

  /// Fills the table; throws Error if a required argument has no value.
  void Fill();

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
    PortInfo info;                    // of the per-sample values as they came
    uint32_t dtype = 0;               // as the kernel sees it
    int32_t ndim = 0;
  };
  void CheckDeclared(int arg, uint32_t dtype, int32_t ndim, const char *what) const;
  const Kernel &kernel_;
  std::vector<Slot> slots_;
  Table table_;
  std::vector<std::vector<char>> converted_;  // per argument, for this batch
  int64_t n_samples_ = 0;
};

}  // namespace opabi
