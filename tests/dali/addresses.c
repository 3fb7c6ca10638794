/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that tests call by address: kernels that do not travel. */
#include <opabi/opabi.h>
#include <string.h>

OPABI_EXPORT int32_t invert_run(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = call->inputs[s].data;
    uint8_t *y = call->outputs[s].data;
    for (int64_t i = 0; i < opabi_numel(&call->inputs[s]); i++) y[i] = (uint8_t)(255 - x[i]);
  }
  return OPABI_OK;
}

/* How often it was called for a sample, so far in this process. */
static int64_t runs;
OPABI_EXPORT int32_t count_run(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    *(int64_t *)call->outputs[s].data = __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
  }
  return OPABI_OK;
}

/* Collects the first element of each sample, as its bit in a mask. */
static int64_t collected;
OPABI_EXPORT int32_t collect_run(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    __atomic_fetch_add(&collected, INT64_C(1) << 8 * *(const int32_t *)call->inputs[s].data,
                       __ATOMIC_RELAXED);
  }
  return OPABI_OK;
}
OPABI_EXPORT int64_t take_collected(void) {
  return __atomic_exchange_n(&collected, 0, __ATOMIC_RELAXED);
}

OPABI_EXPORT int32_t any_run(const opabi_call *call) {
  for (int64_t i = 0; i < call->n_samples * call->n_out; i++) {
    const opabi_tensor *x = &call->inputs[i];
    const int64_t bytes = opabi_numel(x) * ((x->dtype >> 8 & 0xFF) / 8);
    if (bytes) memcpy(call->outputs[i].data, x->data, (size_t)bytes);
  }
  return OPABI_OK;
}

/* So that the file loads as a library too. */
OPABI_KERNEL(any_run, "T[...] -> T[...]");
OPABI_LIBRARY("addresses", 0, &any_run_kernel)
