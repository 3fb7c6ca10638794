// SPDX-License-Identifier: Apache-2.0
#include "cuda/lane.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace opabi::cuda {
namespace {

constexpr int64_t kAlignment = 256;
constexpr size_t kMaxSlots = 32;  // a host this many batches ahead of the device waits for it
constexpr int64_t kSmallCopy = 64 * 1024;
constexpr unsigned kDisableTiming = 2;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Room to grow, so that batches of varying sizes soon stop to allocate.
int64_t Rounded(int64_t bytes) {
  int64_t rounded = 4096;
  while (rounded < bytes && rounded < int64_t{1} << 24) rounded *= 2;
  return std::max(rounded, Aligned(bytes));
}

/// A graph is replayed when its memory has long been given to other calls.
void RefuseCapture(void *stream) {
  int capturing = 0;
  Check(GetDriver().cuStreamIsCapturing(stream, &capturing), "asking a stream for its state");
  if (!capturing) return;
  throw Error(Kind::kRuntime, "OPABI-H-017",
              "the stream is being captured into a graph, and this call needs staged tables or "
              "scratch, which a replay "
              "would find overwritten. Keep the batch small enough that its table goes by value, "
              "and pass all inputs on "
              "the GPU.");
}

void *NewEvent() {
  void *event = nullptr;
  Check(GetDriver().cuEventCreate(&event, kDisableTiming), "creating an event");
  return event;
}

}  // namespace

Lane::~Lane() {
  const Driver &driver = GetDriver();
  if (driver.cuCtxPushCurrent_v2(context_.get()) != kSuccess) return;  // the driver has ended
  for (const auto &slot : slots_) {
    if (slot->busy) driver.cuEventSynchronize(slot->event);
    if (slot->event) driver.cuEventDestroy_v2(slot->event);
    if (slot->host) driver.cuMemFreeHost(slot->host);
    if (slot->device) driver.cuMemFree_v2(slot->device);
  }
  if (scratch_event_) {
    driver.cuEventSynchronize(scratch_event_);
    driver.cuEventDestroy_v2(scratch_event_);
  }
  if (scratch_) driver.cuMemFree_v2(scratch_);
  void *context;
  driver.cuCtxPopCurrent_v2(&context);
}

Device::Lease Lane::Begin(void *stream, const Need &need) {
  const Current current(context_);
  stream_ = stream;
  slot_ = nullptr;
  scratch_taken_ = false;
  Lease lease;
  if (need.staged > 0 || need.pinned > 0 || need.scratch > 0) RefuseCapture(stream);
  if (need.staged > 0 || need.pinned > 0) {
    Slot &slot = TakeSlot();
    const bool small = need.staged <= kSmallCopy;
    const int64_t pinned = small ? 0 : Aligned(need.staged);
    Grow(slot, pinned + need.pinned, need.staged);
    if (small && static_cast<int64_t>(slot.plain.size()) < need.staged)
      slot.plain.resize(kSmallCopy);
    if (need.staged > 0) {
      lease.staged_host = staged_host_ = small ? slot.plain.data() : slot.host;
      lease.staged_device = reinterpret_cast<char *>(slot.device);
    }
    if (need.pinned > 0) lease.pinned = slot.host + pinned;
    slot_ = &slot;
  }
  if (need.scratch > 0) lease.scratch = Scratch(stream, need.scratch);
  current_.emplace(context_);
  return lease;
}

Lane::Slot &Lane::TakeSlot() {
  const Driver &driver = GetDriver();
  if (!slots_.empty()) {
    Slot &oldest = *slots_[next_];
    if (oldest.busy) {
      Status status = driver.cuEventQuery(oldest.event);
      if (status == kNotReady && slots_.size() >= kMaxSlots)
        status = driver.cuEventSynchronize(oldest.event);
      if (status != kNotReady) {
        Check(status, "waiting for an earlier batch");
        oldest.busy = false;
      }
    }
    if (!oldest.busy) {
      next_ = (next_ + 1) % slots_.size();
      return oldest;
    }
  }
  auto slot = std::make_unique<Slot>();
  slot->event = NewEvent();
  const auto at =
      slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(next_), std::move(slot));
  next_ = (next_ + 1) % slots_.size();
  return **at;
}

void Lane::Grow(Slot &slot, int64_t host_bytes, int64_t device_bytes) {
  const Driver &driver = GetDriver();
  if (host_bytes > slot.host_bytes) {
    if (slot.host) driver.cuMemFreeHost(slot.host);
    slot.host = nullptr;
    slot.host_bytes = 0;
    const int64_t bytes = Rounded(host_bytes);
    void *host = nullptr;
    Check(driver.cuMemHostAlloc(&host, static_cast<size_t>(bytes), 0),
          "allocating " + std::to_string(bytes) + " bytes of pinned memory");
    slot.host = static_cast<char *>(host);
    slot.host_bytes = bytes;
  }
  if (device_bytes > slot.device_bytes) {
    if (slot.device) driver.cuMemFree_v2(slot.device);
    slot.device = 0;
    slot.device_bytes = 0;
    const int64_t bytes = Rounded(device_bytes);
    Check(driver.cuMemAlloc_v2(&slot.device, static_cast<size_t>(bytes)),
          "allocating " + std::to_string(bytes) + " bytes of device memory");
    slot.device_bytes = bytes;
  }
}

char *Lane::Scratch(void *stream, int64_t bytes) {
  const Driver &driver = GetDriver();
  if (!scratch_event_) scratch_event_ = NewEvent();
  if (bytes > scratch_bytes_) {
    if (scratch_used_)
      Check(driver.cuEventSynchronize(scratch_event_), "waiting for an earlier batch");
    if (scratch_) driver.cuMemFree_v2(scratch_);
    scratch_ = 0;
    scratch_bytes_ = 0;
    const int64_t size = Rounded(bytes);
    Check(driver.cuMemAlloc_v2(&scratch_, static_cast<size_t>(size)),
          "allocating " + std::to_string(size) + " bytes of device scratch");
    scratch_bytes_ = size;
  } else if (scratch_used_ && stream != scratch_stream_) {
    Check(driver.cuStreamWaitEvent(stream, scratch_event_, 0), "waiting for an earlier batch");
  }
  scratch_stream_ = stream;
  scratch_taken_ = true;
  return reinterpret_cast<char *>(scratch_);
}

void Lane::Send(int64_t bytes) {
  Check(GetDriver().cuMemcpyHtoDAsync_v2(slot_->device, staged_host_, static_cast<size_t>(bytes),
                                         stream_),
        "copying tables to the device");
}

void Lane::End() noexcept {
  const Driver &driver = GetDriver();
  // An event that cannot be recorded counts as passed: the stream is broken, and every later call says so.
  if (slot_) slot_->busy = driver.cuEventRecord(slot_->event, stream_) == kSuccess;
  if (scratch_taken_) scratch_used_ = driver.cuEventRecord(scratch_event_, stream_) == kSuccess;
  slot_ = nullptr;
  current_.reset();
}

void Lane::Synchronize(void *stream) {
  const Current current(context_);
  Check(GetDriver().cuStreamSynchronize(stream), "waiting for the stream");
}

}  // namespace opabi::cuda
