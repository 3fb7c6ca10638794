// SPDX-License-Identifier: Apache-2.0
// The engine's calls of CUDA kernels: one call a batch, on the stream that the host lends.
#include <cstring>

#include "core/dtype.h"
#include "core/engine.h"
#include "core/engine_worker.h"
#include "core/error.h"

namespace opabi {
namespace {

constexpr int64_t kDataAlignment = 16;

int64_t AlignedTo(int64_t bytes) {
  return (bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}

/// Tensor tables for device memory: the tensors of each table, their extents and strides, and the data of those
/// that lie in host memory. Every pointer in the copy is the device's (OPABI-H-018).
class DeviceTables {
 public:
  void Add(const opabi_tensor *tensors, int64_t n) {
    parts_[n_parts_++] = {tensors, n, bytes_};
    bytes_ += AlignedTo(n * static_cast<int64_t>(sizeof(opabi_tensor)));
    for (int64_t i = 0; i < n; i++) {
      bytes_ += AlignedTo(2 * tensors[i].ndim * static_cast<int64_t>(sizeof(int64_t)));
      if (tensors[i].device_type == OPABI_CPU) bytes_ += AlignedTo(Bytes(tensors[i]));
    }
  }

  int64_t bytes() const { return bytes_; }

  /// Writes all tables to `host`, as they shall lie at `device`.
  void Write(char *host, char *device) const {
    for (int p = 0; p < n_parts_; p++) {
      const Part &part = parts_[p];
      auto *tensors = reinterpret_cast<opabi_tensor *>(host + part.offset);
      int64_t next = part.offset + AlignedTo(part.n * static_cast<int64_t>(sizeof(opabi_tensor)));
      const auto put = [&](const void *source, int64_t bytes) {
        const int64_t at = next;
        if (bytes) std::memcpy(host + at, source, static_cast<size_t>(bytes));
        next += bytes;
        return device + at;
      };
      for (int64_t i = 0; i < part.n; i++) {
        const opabi_tensor &tensor = part.tensors[i];
        const int64_t extents = tensor.ndim * static_cast<int64_t>(sizeof(int64_t));
        tensors[i] = tensor;
        tensors[i].shape = reinterpret_cast<const int64_t *>(put(tensor.shape, extents));
        tensors[i].strides = reinterpret_cast<const int64_t *>(put(tensor.strides, extents));
        next = AlignedTo(next);
        if (tensor.device_type == OPABI_CPU) tensors[i].data = put(tensor.data, Bytes(tensor));
        next = AlignedTo(next);
      }
    }
  }

  const opabi_tensor *at(int part, const char *device) const {
    return reinterpret_cast<const opabi_tensor *>(device + parts_[part].offset);
  }

 private:
  struct Part {
    const opabi_tensor *tensors;
    int64_t n, offset;
  };
  static int64_t Bytes(const opabi_tensor &tensor) {
    return opabi_numel(&tensor) * DtypeSize(tensor.dtype);
  }
  Part parts_[3];
  int n_parts_ = 0;
  int64_t bytes_ = 0;
};

/// From Device::Begin to End, also where something throws between.
class Leased {
 public:
  Leased(Device &device, void *stream, const Device::Need &need)
      : device_(device), lease_(device.Begin(stream, need)) {}
  ~Leased() { device_.End(); }
  const Device::Lease &get() const { return lease_; }

 private:
  Device &device_;
  Device::Lease lease_;
};

}  // namespace

void Engine::CheckDevice() const {
  for (int port = 0; port < n_out_; port++) {
    if (!bounded_[port]) continue;
    throw Error(Kind::kRuntime, "",
                "kernel '" + kernel_->name() + "', " + kernel_->signature().OutputLabel(port) +
                    ": this host cannot yet run CUDA kernels with outputs whose size run decides "
                    "('<='). Give the "
                    "output its largest size, and the actual one as an output of its own.");
  }
}

void Engine::RunCuda(const RunContext &context) {
  if (!context.device || !context.stream) {
    throw Error(
        Kind::kType, "OPABI-H-002",
        "kernel '" + kernel_->name() + "' works on the GPU, and this call has no stream of one.");
  }
  PrepareWorkers(1);
  DeviceTables tables;
  if (kernel_->demands(OPABI_DEVICE_TABLES)) {
    tables.Add(inputs_.row(0), n_samples_ * n_in_);
    tables.Add(outputs_.row(0), n_samples_ * n_out_);
    tables.Add(arguments_.table().row(0), n_samples_ * n_args_);
  }
  opabi_call call;
  FillCall(0, 0, n_samples_, &call);
  call.stream = context.stream;
  try {
    const Leased leased(*context.device, context.stream,
                        {tables.bytes(), scratch_bytes_[OPABI_SCRATCH_PINNED],
                         scratch_bytes_[OPABI_SCRATCH_DEVICE]});
    const Device::Lease &lease = leased.get();
    if (tables.bytes()) {
      tables.Write(lease.staged_host, lease.staged_device);
      context.device->Send(tables.bytes());
      call.device_inputs = tables.at(0, lease.staged_device);
      call.device_outputs = tables.at(1, lease.staged_device);
      call.device_args = tables.at(2, lease.staged_device);
    }
    workers_[0]->scratch_table[OPABI_SCRATCH_DEVICE] = lease.scratch;
    workers_[0]->scratch_table[OPABI_SCRATCH_PINNED] = lease.pinned;
    CallRun(call);
  } catch (const Error &error) {
    throw error.In("kernel '" + kernel_->name() + "': ");
  }
  if (!options_.checked || workers_[0]->failure.happened) return;
  try {
    context.device->Synchronize(context.stream);
  } catch (const Error &error) {
    throw error.In("kernel '" + kernel_->name() + "', checked mode: after its call, ");
  }
}

}  // namespace opabi
