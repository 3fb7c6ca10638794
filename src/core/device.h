// SPDX-License-Identifier: Apache-2.0
// What a host lends the engine for calls of CUDA kernels. The core knows no CUDA: src/cuda has the services.
#pragma once

#include <cstdint>

namespace opabi {

/// Memory on one device for the calls of one engine. Every failure throws opabi::Error.
class Device {
 public:
  virtual ~Device() = default;

  /// What one call asks for, in bytes.
  struct Need {
    int64_t staged = 0;   // pinned memory with a twin on the device
    int64_t pinned = 0;   // pinned scratch
    int64_t scratch = 0;  // device scratch
  };
  struct Lease {
    char *staged_host = nullptr, *staged_device = nullptr;
    char *pinned = nullptr;
    char *scratch = nullptr;
  };

  /// Makes the device current and gives the memory for one call on `stream`. What was given before and may still
  /// be read by the stream stays untouched. NULL where no bytes were asked for.
  virtual Lease Begin(void *stream, const Need &need) = 0;

  /// Enqueues the copy of the first `bytes` staged bytes to their twin.
  virtual void Send(int64_t bytes) = 0;

  /// The work that reads the memory has been enqueued, or given up. Follows each Begin.
  virtual void End() noexcept = 0;

  /// Waits until the stream has passed all its work.
  virtual void Synchronize(void *stream) = 0;
};

}  // namespace opabi
