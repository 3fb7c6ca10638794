// SPDX-License-Identifier: Apache-2.0
// One engine's memory on a device. A steady stream of batches allocates nothing and waits for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/device.h"
#include "cuda/driver.h"

namespace opabi::cuda {

class Lane : public Device {
 public:
  explicit Lane(int32_t device_id) : context_(device_id) {}
  ~Lane() override;

  Lease Begin(void *stream, const Need &need) override;
  void Send(int64_t bytes) override;
  void End() noexcept override;
  void Synchronize(void *stream) override;

 private:
  /// Memory that a stream may still use, until it has passed the event. `plain` is not pinned: the driver takes
  /// small copies from such memory along with its commands, which costs a tenth of a transfer of its own.
  struct Slot {
    std::vector<char> plain;
    char *host = nullptr;
    Pointer device = 0;
    int64_t host_bytes = 0, device_bytes = 0;
    void *event = nullptr;
    bool busy = false;
  };

  Slot &TakeSlot();
  void Grow(Slot &slot, int64_t host_bytes, int64_t device_bytes);
  char *Scratch(void *stream, int64_t bytes);

  Context context_;
  std::optional<Current> current_;  // from Begin to End
  std::vector<std::unique_ptr<Slot>> slots_;
  size_t next_ = 0;
  Slot *slot_ = nullptr;  // of the call between Begin and End
  char *staged_host_ = nullptr;
  void *stream_ = nullptr;

  // Device scratch is one block: calls on one stream come after each other there.
  Pointer scratch_ = 0;
  int64_t scratch_bytes_ = 0;
  void *scratch_stream_ = nullptr, *scratch_event_ = nullptr;
  bool scratch_used_ = false, scratch_taken_ = false;
};

}  // namespace opabi::cuda
