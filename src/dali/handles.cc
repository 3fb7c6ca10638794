// SPDX-License-Identifier: Apache-2.0
#include "dali/handles.h"

#include <mutex>
#include <random>
#include <unordered_map>

#include "core/error.h"

namespace opabi {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<Kernel>> kernels;
  std::random_device random;
};

/// Never destroyed: operators may outlive the statics of this library.
Handles &Shared() {
  static Handles &handles = *new Handles;
  return handles;
}

}  // namespace

int64_t AddHandle(std::shared_ptr<Kernel> kernel) {
  Handles &handles = Shared();
  std::lock_guard<std::mutex> lock(handles.mutex);
  for (;;) {
    const uint64_t high = handles.random(), low = handles.random();
    const int64_t handle = static_cast<int64_t>((high << 32 | (low & 0xFFFFFFFF)) >> 1);
    if (handle > 0 && handles.kernels.emplace(handle, kernel).second) return handle;
  }
}

void ForgetHandle(int64_t handle) {
  Handles &handles = Shared();
  std::shared_ptr<Kernel> last;  // ends after the lock: its owner may take Python's lock
  std::lock_guard<std::mutex> lock(handles.mutex);
  const auto found = handles.kernels.find(handle);
  if (found == handles.kernels.end()) return;
  last = std::move(found->second);
  handles.kernels.erase(found);
}

std::shared_ptr<Kernel> FindHandle(int64_t handle) {
  Handles &handles = Shared();
  std::lock_guard<std::mutex> lock(handles.mutex);
  const auto found = handles.kernels.find(handle);
  if (found != handles.kernels.end()) return found->second;
  throw Error(
      Kind::kValue, "",
      "opabi.call: no kernel of this process has the handle " + std::to_string(handle) +
          ". A kernel that was made from a function or an address lives in its own process only. "
          "Build a "
          "shared library of it and call the kernel that opabi.load() returns: that one travels.");
}

}  // namespace opabi
