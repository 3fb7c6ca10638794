// SPDX-License-Identifier: Apache-2.0
// What DALI's headers name of CUDA, and no more: opaque handles, status codes and declarations. With it the
// operator compiles where no CUDA toolkit is. Nothing here is defined, and the operator calls none of it.
#pragma once

#include <cstddef>

#define __host__
#define __device__
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_VERSION 12000
#define CUDA_VERSION 12000

using CUcontext = struct CUctx_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using cudaStream_t = CUstream;
using cudaEvent_t = CUevent;
struct __half2 {};

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorNotReady = 600
};
enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NOT_READY = 600
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum { cudaEventDisableTiming = 2 };

extern "C" {
CUresult cuGetErrorName(CUresult status, const char **name);
CUresult cuGetErrorString(CUresult status, const char **text);
const char *cudaGetErrorName(cudaError_t status);
const char *cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
}
