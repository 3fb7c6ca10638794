/* SPDX-License-Identifier: Apache-2.0
 * A CUDA driver of two devices for tests on machines without a GPU: device memory is host memory, streams are numbers,
 * functions are C functions that get the launch's parameters. It records what is called, and ends the process where a
 * call breaks a rule that the real driver would punish later or not at all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  NOT_READY = 600
};

typedef struct {
  int64_t launches, copies, copied_bytes, allocs, frees, host_allocs, host_frees, syncs, waits,
      events, records;
  uint64_t grid[3], block[3], shared;
  uint64_t stream, function;
} fake_record;

typedef void (*fake_function)(void **params, const unsigned *grid, const unsigned *block);

typedef struct {
  uint64_t stamp; /* of its record; 0: never recorded */
} fake_event;

static fake_record record;
static int contexts[2], stack[64], depth;
static uint64_t clock_ = 1, passed; /* work up to `passed` is done; fake_hold stops it */
static int held, fail_next, param_size = 8192;

EXPORT fake_record *fake_get(void) { return &record; }
EXPORT void fake_reset(void) { memset(&record, 0, sizeof record); }
EXPORT void fake_hold(int hold) {
  held = hold;
  if (!hold) passed = clock_;
}
EXPORT void fake_fail_next_launch(int status) { fail_next = status; }
EXPORT void fake_param_size(int size) { param_size = size; }
EXPORT int fake_depth(void) { return depth; }

static void tick(void) {
  clock_++;
  if (!held) passed = clock_;
}
static void need_context(const char *what) {
  if (depth > 0) return;
  fprintf(stderr, "fake driver: %s without a current context\n", what);
  abort();
}
static void need_stream(void *stream) {
  if (stream) return;
  fprintf(stderr, "fake driver: no stream\n");
  abort();
}

EXPORT int cuInit(unsigned flags) { return flags ? INVALID_VALUE : OK; }
EXPORT int cuGetErrorName(int status, const char **name) {
  *name = status == INVALID_VALUE    ? "CUDA_ERROR_INVALID_VALUE"
          : status == OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE"
                                     : "CUDA_ERROR_UNKNOWN";
  return OK;
}
EXPORT int cuGetErrorString(int status, const char **text) {
  *text = status == INVALID_VALUE    ? "invalid argument"
          : status == OUT_OF_MEMORY  ? "out of memory"
          : status == INVALID_DEVICE ? "invalid device ordinal"
                                     : "unknown error";
  return OK;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < 2 ? OK : INVALID_DEVICE;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)attribute;
  (void)device;
  *value = 90;
  return OK;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  contexts[device]++;
  *context = (void *)(intptr_t)(device + 1);
  return OK;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  return contexts[device]-- > 0 ? OK : INVALID_CONTEXT;
}
EXPORT int cuCtxPushCurrent_v2(void *context) {
  stack[depth++] = (int)(intptr_t)context;
  return OK;
}
EXPORT int cuCtxPopCurrent_v2(void **context) {
  need_context("cuCtxPopCurrent");
  *context = (void *)(intptr_t)stack[--depth];
  return OK;
}
EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
  need_context("cuMemAlloc");
  record.allocs++;
  *pointer = (uint64_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset((void *)*pointer, 0xCD, bytes);
  return OK;
}
EXPORT int cuMemFree_v2(uint64_t pointer) {
  need_context("cuMemFree");
  record.frees++;
  free((void *)pointer);
  return OK;
}
EXPORT int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  (void)flags;
  need_context("cuMemHostAlloc");
  record.host_allocs++;
  *pointer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return OK;
}
EXPORT int cuMemFreeHost(void *pointer) {
  need_context("cuMemFreeHost");
  record.host_frees++;
  free(pointer);
  return OK;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream) {
  need_context("cuMemcpyHtoDAsync");
  need_stream(stream);
  record.copies++;
  record.copied_bytes += (int64_t)bytes;
  record.stream = (uint64_t)stream;
  memcpy((void *)target, source, bytes);
  tick();
  return OK;
}
EXPORT int cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  need_context("cuEventCreate");
  record.events++;
  *event = calloc(1, sizeof(fake_event));
  return OK;
}
EXPORT int cuEventDestroy_v2(void *event) {
  record.events--;
  free(event);
  return OK;
}
EXPORT int cuEventRecord(void *event, void *stream) {
  need_stream(stream);
  record.records++;
  tick();
  ((fake_event *)event)->stamp = clock_;
  return OK;
}
EXPORT int cuEventQuery(void *event) {
  return ((fake_event *)event)->stamp <= passed ? OK : NOT_READY;
}
EXPORT int cuEventSynchronize(void *event) {
  record.waits++;
  if (((fake_event *)event)->stamp > passed) passed = ((fake_event *)event)->stamp;
  return OK;
}
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)stream;
  (void)event;
  (void)flags;
  return OK;
}
EXPORT int cuStreamSynchronize(void *stream) {
  need_stream(stream);
  record.syncs++;
  passed = clock_;
  return OK;
}
EXPORT int cuStreamIsCapturing(void *stream, int *capturing) {
  *capturing = stream == (void *)0x77;
  return OK;
}
EXPORT int cuModuleLoadData(void **module, const void *image) {
  *module = (void *)image;
  return OK;
}
EXPORT int cuModuleUnload(void *module) {
  (void)module;
  return OK;
}
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)name;
  *function = module;
  return OK;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function;
  (void)attribute;
  return value > 227 * 1024 ? INVALID_VALUE : OK;
}
EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
  (void)function;
  *offset = 0;
  *size = (size_t)param_size;
  return index == 0 ? OK : INVALID_VALUE;
}
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                          void **extra) {
  const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  need_context("cuLaunchKernel");
  need_stream(stream);
  if (extra || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024) return INVALID_VALUE;
  if (fail_next) {
    int status = fail_next;
    fail_next = 0;
    return status;
  }
  record.launches++;
  for (int i = 0; i < 3; i++) record.grid[i] = grid[i], record.block[i] = block[i];
  record.shared = shared;
  record.stream = (uint64_t)stream;
  record.function = (uint64_t)function;
  ((fake_function)function)(params, grid, block);
  tick();
  return OK;
}
