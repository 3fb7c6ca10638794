/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries that a host must refuse to load, or must load: compiled with one -D... each. */
#include <opabi/opabi.h>
#include <stddef.h>

static int32_t copy(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = call->inputs[s].data;
    uint8_t *y = call->outputs[s].data;
    for (int64_t i = 0; i < opabi_numel(&call->inputs[s]); i++) y[i] = x[i];
  }
  return OPABI_OK;
}

/* Fields that a -D changes. */
#ifndef MAGIC
#define MAGIC OPABI_MAGIC
#endif
#ifndef SIZE
#define SIZE sizeof(opabi_kernel)
#endif
#ifndef ABI_MIN
#define ABI_MIN OPABI_VERSION(OPABI_MAJOR, 0)
#endif
#ifndef NAME
#define NAME "copy"
#endif
#ifndef SIGNATURE
#define SIGNATURE "uint8[n] -> uint8[n]"
#endif
#ifndef RUN
#define RUN copy
#endif
#ifndef FIELDS
#define FIELDS .doc = NULL
#endif

/* A later minor's descriptor: larger, with what this host does not know. */
typedef struct {
  opabi_kernel known;
  uint64_t unknown[4];
} later_kernel;

static const later_kernel kernel = {{.magic = MAGIC,
                                     .struct_size = SIZE,
                                     .abi_min = ABI_MIN,
                                     .name = NAME,
                                     .signature = SIGNATURE,
                                     .device_type = OPABI_CPU,
                                     .run = RUN,
                                     FIELDS},
                                    {~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)}};

#if defined(UNDEFINED_SYMBOL)
int32_t nobody_defines_this(const opabi_call *call);
static const opabi_kernel undefined_kernel = {.magic = OPABI_MAGIC,
                                              .struct_size = sizeof(opabi_kernel),
                                              .abi_min = ABI_MIN,
                                              .name = "undefined",
                                              .signature = SIGNATURE,
                                              .device_type = OPABI_CPU,
                                              .run = nobody_defines_this};
OPABI_LIBRARY("broken", "1", &kernel.known, &undefined_kernel)
#elif defined(NO_ENTRY)
OPABI_EXPORT const opabi_kernel *unused(void);
const opabi_kernel *unused(void) { return &kernel.known; }
#elif defined(NULL_LIBRARY)
OPABI_EXPORT const opabi_library *opabi_library_v1(void);
const opabi_library *opabi_library_v1(void) { return kernel.known.run ? NULL : NULL; }
#elif defined(NULL_KERNEL)
OPABI_LIBRARY("broken", "1", &kernel.known, NULL)
#elif defined(TWICE)
OPABI_LIBRARY("broken", "1", &kernel.known, &kernel.known)
#elif defined(LIBRARY)
OPABI_EXPORT const opabi_library *opabi_library_v1(void);
const opabi_library *opabi_library_v1(void) {
  static const opabi_kernel *const kernels[] = {&kernel.known};
  static const opabi_library library = {.magic = OPABI_MAGIC,
                                        .struct_size = sizeof(opabi_library),
                                        .abi_min = OPABI_NEEDS,
                                        .name = "broken",
                                        .n_kernels = 1,
                                        .kernels = kernels,
                                        LIBRARY};
  return &library;
}
#else
OPABI_LIBRARY("broken", "1", &kernel.known)
#endif
