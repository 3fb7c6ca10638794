// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened at run time: nothing here needs CUDA's headers or links to it, and a machine without a
// GPU loads this library all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace opabi::cuda {

using Status = int;        // CUresult
using Pointer = uint64_t;  // CUdeviceptr

enum : Status { kSuccess = 0, kOutOfMemory = 2, kNotReady = 600 };

/// The driver's functions that we call, by their names there; the pointers stay valid for ever.
struct Driver {
  Status (*cuInit)(unsigned flags);
  Status (*cuGetErrorName)(Status status, const char **name);
  Status (*cuGetErrorString)(Status status, const char **text);
  Status (*cuDeviceGet)(int *device, int ordinal);
  Status (*cuDeviceGetAttribute)(int *value, int attribute, int device);
  Status (*cuDevicePrimaryCtxRetain)(void **context, int device);
  Status (*cuDevicePrimaryCtxRelease_v2)(int device);
  Status (*cuCtxPushCurrent_v2)(void *context);
  Status (*cuCtxPopCurrent_v2)(void **context);
  Status (*cuMemAlloc_v2)(Pointer *pointer, size_t bytes);
  Status (*cuMemFree_v2)(Pointer pointer);
  Status (*cuMemHostAlloc)(void **pointer, size_t bytes, unsigned flags);
  Status (*cuMemFreeHost)(void *pointer);
  Status (*cuMemcpyHtoDAsync_v2)(Pointer target, const void *source, size_t bytes, void *stream);
  Status (*cuEventCreate)(void **event, unsigned flags);
  Status (*cuEventDestroy_v2)(void *event);
  Status (*cuEventRecord)(void *event, void *stream);
  Status (*cuEventQuery)(void *event);
  Status (*cuEventSynchronize)(void *event);
  Status (*cuStreamWaitEvent)(void *stream, void *event, unsigned flags);
  Status (*cuStreamSynchronize)(void *stream);
  Status (*cuStreamIsCapturing)(void *stream, int *capturing);
  Status (*cuModuleLoadData)(void **module, const void *image);
  Status (*cuModuleUnload)(void *module);
  Status (*cuModuleGetFunction)(void **function, void *module, const char *name);
  Status (*cuFuncSetAttribute)(void *function, int attribute, int value);
  Status (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, void *stream, void **params, void **extra);
  Status (*cuFuncGetParamInfo)(void *function, size_t index, size_t *offset,
                               size_t *size);  // NULL before 12.4
};

/// Opens libcuda.so.1, or what OPABI_CUDA_DRIVER names, at the first call. Throws Error (kRuntime) that says why
/// there is no driver.
const Driver &GetDriver();

/// "CUDA_ERROR_INVALID_VALUE (1): invalid argument".
std::string StatusText(Status status);

/// Throws Error (kRuntime, or kMemory) with `what` and CUDA's text unless the status is kSuccess.
void Check(Status status, const std::string &what);

/// A device's primary context, which CUDA's runtime and DALI use too.
class Context {
 public:
  explicit Context(int32_t device_id);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  int32_t device_id() const { return device_id_; }
  void *get() const { return context_; }

 private:
  int32_t device_id_;
  int device_ = 0;
  void *context_ = nullptr;
};

/// The context is current while this object lives; then what was before.
class Current {
 public:
  explicit Current(const Context &context);
  ~Current();
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
};

}  // namespace opabi::cuda
