// SPDX-License-Identifier: Apache-2.0
// The engine's instance in a checkpoint: what save wrote, and restore takes back.
#include <algorithm>

#include "core/engine.h"
#include "core/error.h"
#include "core/report.h"

namespace opabi {
namespace {

/// Calls save or restore; returns the number of bytes that it reports.
int64_t CallState(const Kernel &kernel, const char *function, int32_t (*hook)(const opabi_state *),
                  void *instance, void *buffer, int64_t capacity) {
  ErrorBuffer error;
  error.Reset();
  int64_t bytes = 0;
  opabi_state state{};
  state.struct_size = sizeof state;
  state.abi = OPABI_VERSION(OPABI_MAJOR, OPABI_MINOR);
  state.user_data = kernel.descriptor().user_data;
  state.instance = instance;
  state.buffer = buffer;
  state.capacity = capacity;
  state.out_bytes = &bytes;
  state.err = error.text;
  state.err_cap = sizeof error.text;
  state.err_where = error.where;
  const int32_t status = hook(&state);
  if (status != OPABI_OK) ThrowFailure(kernel, function, MakeFailure(status, error, 0, 0));
  return bytes;
}

}  // namespace

std::string Engine::SaveState() const {
  const opabi_kernel &d = kernel_->descriptor();
  if (!d.save) {
    throw Error(Kind::kRuntime, "OPABI-H-030",
                "kernel '" + kernel_->name() +
                    "' keeps state and has no save and restore, so it cannot take part in " +
                    "a checkpoint. Give it both, or do without checkpoints in this pipeline.");
  }
  const int64_t size = CallState(*kernel_, "save", d.save, instance_, nullptr, 0);
  std::string state(static_cast<size_t>(std::max<int64_t>(size, 0)), '\0');
  const int64_t used =
      size < 0 ? size : CallState(*kernel_, "save", d.save, instance_, state.data(), size);
  if (used < 0 || used > size) {
    throw Error(Kind::kRuntime, "OPABI-K-036",
                "kernel '" + kernel_->name() + "', save: expected out_bytes of 0 to " +
                    std::to_string(state.size()) + ", found " + std::to_string(used) + ".");
  }
  state.resize(static_cast<size_t>(used));
  return state;
}

void Engine::RestoreState(const std::string &state) {
  const opabi_kernel &d = kernel_->descriptor();
  if (!d.restore) {
    throw Error(
        Kind::kRuntime, "OPABI-H-030",
        "kernel '" + kernel_->name() + "' has no restore, so no checkpoint holds its state.");
  }
  std::string copy = state;  // read-only by the rules; the caller's text is not put at risk
  CallState(*kernel_, "restore", d.restore, instance_, copy.data(),
            static_cast<int64_t>(copy.size()));
}

}  // namespace opabi
