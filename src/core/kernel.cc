// SPDX-License-Identifier: Apache-2.0
#include "core/kernel.h"

#include <utility>

#include "core/check.h"
#include "core/dtype.h"
#include "core/ended_thread.h"
#include "core/error.h"
#include "core/report.h"

namespace opabi {
namespace {

/// "uint8 of rank 3, float32 of rank 0".
std::string KeyText(const TypeKey &key) {
  std::string text;
  for (size_t i = 0; i < key.dtypes.size(); i++) {
    text += (i ? ", " : "") + DtypeName(key.dtypes[i]) + " of rank " + std::to_string(key.ndims[i]);
  }
  return text.empty() ? "no inputs" : text;
}

}  // namespace

std::shared_ptr<Kernel> Kernel::Adopt(const opabi_kernel *descriptor, std::function<void()> drop) {
  CheckKernel(descriptor);
  opabi_kernel known = Normalize(*descriptor);
  std::shared_ptr<Kernel> kernel(new Kernel(known, known.name));
  kernel->drop_ = std::move(drop);
  kernel->owned_ = true;
  return kernel;
}

std::shared_ptr<Kernel> Kernel::FromLibrary(const opabi_kernel *descriptor, std::string library) {
  CheckKernel(descriptor);
  opabi_kernel known = Normalize(*descriptor);
  return std::shared_ptr<Kernel>(new Kernel(known, library + "." + known.name));
}

Kernel::Kernel(const opabi_kernel &descriptor, std::string name)
    : descriptor_(descriptor), name_(std::move(name)), signature_(ParseSignature(descriptor)) {}

Kernel::~Kernel() {
  if (!owned_) return;
  if (descriptor_.release) descriptor_.release(descriptor_.user_data);
  if (drop_) drop_();
}

void Kernel::CheckInputCount(int64_t n) const {
  const size_t expected = signature_.inputs().size();
  if (n == static_cast<int64_t>(expected)) return;
  throw Error(Kind::kType, "",
              "kernel '" + name_ + "': expected " + std::to_string(expected) + " inputs, found " +
                  std::to_string(n) + ". Its signature is \"" + signature_.text() + "\".");
}

const Specialization &Kernel::Specialize(const TypeKey &key, int32_t device_type) {
  // A kernel that calls itself from its specialize would wait for itself.
  if (specializing_ == std::this_thread::get_id()) {
    throw Error(Kind::kRuntime, "",
                "kernel '" + name_ + "': its specialize calls the kernel itself for " +
                    KeyText(key) + ". Call another kernel there.");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = specializations_.find(key);
  if (found != specializations_.end()) return found->second;
  Specialization functions{descriptor_.run, descriptor_.setup, descriptor_.user_data};
  if (descriptor_.specialize) CallSpecialize(key, device_type, &functions);
  return specializations_.emplace(key, functions).first->second;
}

void Kernel::CallSpecialize(const TypeKey &key, int32_t device_type, Specialization *functions) {
  size_t n_in = signature_.inputs().size();
  ErrorBuffer error;
  error.Reset();
  opabi_specialize call{};
  call.struct_size = sizeof call;
  call.abi = OPABI_VERSION(OPABI_MAJOR, OPABI_MINOR);
  call.user_data = descriptor_.user_data;
  call.n_in = static_cast<int32_t>(n_in);
  call.n_args = descriptor_.n_args;
  call.in_dtype = key.dtypes.data();
  call.in_ndim = key.ndims.data();
  call.arg_dtype = key.dtypes.data() + n_in;
  call.arg_ndim = key.ndims.data() + n_in;
  call.device_type = device_type;
  call.device_id = key.device_id;
  call.out_run = &functions->run;
  call.out_setup = &functions->setup;
  call.out_user_data = &functions->user_data;
  call.err = error.text;
  call.err_cap = sizeof error.text;
  call.err_where = error.where;

  Failure failure;
  specializing_ = std::this_thread::get_id();
  try {
    failure = MakeFailure(descriptor_.specialize(&call), error, 0, 0);
  } catch (const ThreadEnd &) {
    AwaitProcessEnd();
  } catch (...) {
    failure = MakeFailure(OPABI_ERROR_INTERNAL, error, 0, 0);
    failure.rule = "OPABI-K-004";
    failure.message = "an exception left the kernel. Catch it there and return a status.";
  }
  specializing_ = std::thread::id();
  std::string what = "specialize for " + KeyText(key);
  if (failure.status != OPABI_OK) ThrowFailure(*this, what.c_str(), failure);
  if (!functions->run) {
    throw Error(Kind::kRuntime, "OPABI-D-007",
                "kernel '" + name_ + "': run is NULL after " + what + ".");
  }
  if (!functions->setup && signature_.needs_setup()) {
    throw Error(Kind::kRuntime, "OPABI-D-008",
                "kernel '" + name_ + "': setup is NULL after " + what + ", but the signature \"" +
                    signature_.text() + "\" leaves to it what is \"?\".");
  }
}

}  // namespace opabi
