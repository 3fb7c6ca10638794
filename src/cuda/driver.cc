// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.h"

namespace opabi::cuda {
namespace {

constexpr char kDriver[] = "libcuda.so.1";

template <typename F>
void Find(void *library, const char *name, F *function, bool optional = false) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  if (*function || optional) return;
  throw Error(Kind::kRuntime, "",
              std::string("the CUDA driver has no function ") + name +
                  ": it is too old. Update the NVIDIA driver.");
}

Driver Open() {
  const char *named = std::getenv("OPABI_CUDA_DRIVER");
  void *library = dlopen(named && *named ? named : kDriver, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw Error(
        Kind::kRuntime, "",
        std::string("no CUDA driver: ") + dlerror() +
            ". A kernel that works on the GPU needs an NVIDIA GPU and its driver on this machine.");
  }
  Driver d{};
#define OPABI_FIND(name) Find(library, #name, &d.name)
  OPABI_FIND(cuInit);
  OPABI_FIND(cuGetErrorName);
  OPABI_FIND(cuGetErrorString);
  OPABI_FIND(cuDeviceGet);
  OPABI_FIND(cuDeviceGetAttribute);
  OPABI_FIND(cuDevicePrimaryCtxRetain);
  OPABI_FIND(cuDevicePrimaryCtxRelease_v2);
  OPABI_FIND(cuCtxPushCurrent_v2);
  OPABI_FIND(cuCtxPopCurrent_v2);
  OPABI_FIND(cuMemAlloc_v2);
  OPABI_FIND(cuMemFree_v2);
  OPABI_FIND(cuMemHostAlloc);
  OPABI_FIND(cuMemFreeHost);
  OPABI_FIND(cuMemcpyHtoDAsync_v2);
  OPABI_FIND(cuEventCreate);
  OPABI_FIND(cuEventDestroy_v2);
  OPABI_FIND(cuEventRecord);
  OPABI_FIND(cuEventQuery);
  OPABI_FIND(cuEventSynchronize);
  OPABI_FIND(cuStreamWaitEvent);
  OPABI_FIND(cuStreamSynchronize);
  OPABI_FIND(cuStreamIsCapturing);
  OPABI_FIND(cuModuleLoadData);
  OPABI_FIND(cuModuleUnload);
  OPABI_FIND(cuModuleGetFunction);
  OPABI_FIND(cuFuncSetAttribute);
  OPABI_FIND(cuLaunchKernel);
#undef OPABI_FIND
  Find(library, "cuFuncGetParamInfo", &d.cuFuncGetParamInfo, true);
  const Status status = d.cuInit(0);
  if (status != kSuccess) {
    const char *text = nullptr;
    d.cuGetErrorString(status, &text);
    throw Error(Kind::kRuntime, "",
                "the CUDA driver does not start: " + std::string(text ? text : "unknown error") +
                    " (" + std::to_string(status) + "). nvidia-smi tells whether it sees a GPU.");
  }
  return d;
}

}  // namespace

const Driver &GetDriver() {
  static const Driver driver = Open();  // tried again after a failure
  return driver;
}

std::string StatusText(Status status) {
  const char *name = nullptr, *text = nullptr;
  GetDriver().cuGetErrorName(status, &name);
  GetDriver().cuGetErrorString(status, &text);
  return std::string(name ? name : "unknown CUDA error") + " (" + std::to_string(status) +
         "): " + (text ? text : "");
}

void Check(Status status, const std::string &what) {
  if (status == kSuccess) return;
  throw Error(status == kOutOfMemory ? Kind::kMemory : Kind::kRuntime, "",
              what + ": " + StatusText(status) + ".");
}

Context::Context(int32_t device_id) : device_id_(device_id) {
  const Driver &driver = GetDriver();
  const std::string what = "CUDA device " + std::to_string(device_id);
  Check(driver.cuDeviceGet(&device_, device_id), what);
  Check(driver.cuDevicePrimaryCtxRetain(&context_, device_), what);
}

Context::~Context() {
  // Where the process ends, the driver may have ended before us, and says so: there is nothing left to give back.
  if (context_) GetDriver().cuDevicePrimaryCtxRelease_v2(device_);
}

Current::Current(const Context &context) {
  Check(GetDriver().cuCtxPushCurrent_v2(context.get()),
        "CUDA device " + std::to_string(context.device_id()));
}

Current::~Current() {
  void *context;
  GetDriver().cuCtxPopCurrent_v2(&context);
}

}  // namespace opabi::cuda
