// SPDX-License-Identifier: Apache-2.0
// A checked kernel: its descriptor, its parsed signature and its specializations.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/signature.h"
#include "opabi/opabi.h"

namespace opabi {

/// The functions that serve one combination of dtypes and ranks.
struct Specialization {
  opabi_run_fn run;
  opabi_setup_fn setup;
  void *user_data;
};

/// dtypes and ranks of inputs then arguments, and the device.
struct TypeKey {
  std::vector<uint32_t> dtypes;
  std::vector<int32_t> ndims;
  int32_t device_id = 0;
  bool operator<(const TypeKey &other) const {
    return std::tie(dtypes, ndims, device_id) <
           std::tie(other.dtypes, other.ndims, other.device_id);
  }
  bool operator==(const TypeKey &other) const {
    return dtypes == other.dtypes && ndims == other.ndims && device_id == other.device_id;
  }
};

class Kernel {
 public:
  /// Checks the descriptor; throws Error. The caller owns the descriptor: it stays valid until `drop`
  /// is called, after `release`, from the destructor. A failed Adopt calls neither.
  static std::shared_ptr<Kernel> Adopt(const opabi_kernel *descriptor, std::function<void()> drop);

  /// A kernel of a library that stays loaded: neither released nor dropped.
  static std::shared_ptr<Kernel> FromLibrary(const opabi_kernel *descriptor, std::string library);

  ~Kernel();
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const opabi_kernel &descriptor() const { return descriptor_; }
  const Signature &signature() const { return signature_; }
  const std::string &name() const { return name_; }  // "blur", or "mylib.blur"
  bool has(uint32_t trait) const { return descriptor_.traits & trait; }
  bool demands(uint32_t critical) const { return descriptor_.critical & critical; }
  /// Throws Error (kType) unless the signature has `n` inputs.
  void CheckInputCount(int64_t n) const;

  bool has_instance() const { return descriptor_.create != nullptr; }

  /// Thread-safe; calls the kernel's specialize at most once for each key, unless it fails. Throws Error.
  /// It may take Python's lock: a caller that holds it while others may be in here must give it up first.
  const Specialization &Specialize(const TypeKey &key, int32_t device_type);

 private:
  Kernel(const opabi_kernel &descriptor, std::string name);
  void CallSpecialize(const TypeKey &key, int32_t device_type, Specialization *functions);

  opabi_kernel descriptor_;
  std::string name_;
  Signature signature_;
  std::function<void()> drop_;
  bool owned_ = false;  // released and dropped at the end
  std::mutex mutex_;
  std::map<TypeKey, Specialization> specializations_;
  std::atomic<std::thread::id> specializing_{};  // the thread in the kernel's specialize
};

}  // namespace opabi
