// SPDX-License-Identifier: Apache-2.0
// A kernel's descriptor made from Python values, and everything it points to.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/arguments.h"
#include "core/kernel.h"

namespace opabi {

class __attribute__((visibility("hidden"))) OwnedDescriptor {
 public:
  /// `fields` are the keyword arguments of Kernel.make (python/opabi/kernel.py).
  explicit OwnedDescriptor(const pybind11::dict &fields);

  const opabi_kernel *get() const { return &kernel_; }

  /// The Python exception that the last specialize raised, if any; taken by the eager caller as the cause.
  pybind11::object TakeError() { return std::move(error_); }

 private:
  const char *Keep(const std::string &text);
  void AddArgument(pybind11::handle argument);
  static int32_t Specialize(const opabi_specialize *specialize);
  int32_t CallSpecialize(const opabi_specialize *specialize);

  opabi_kernel kernel_{};
  std::deque<std::string> texts_;
  std::vector<opabi_arg> arguments_;
  std::vector<std::unique_ptr<OwnedTensor>> defaults_;
  pybind11::object specialize_, keep_, error_;
  std::vector<pybind11::object> specialized_;
};

/// Checks the descriptor and hands its ownership to the kernel. The kernel may die on any thread.
std::shared_ptr<Kernel> AdoptDescriptor(std::shared_ptr<OwnedDescriptor> descriptor);

}  // namespace opabi
