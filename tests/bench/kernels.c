/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that are measured. */
#define _POSIX_C_SOURCE 200809L

#include <opabi/opabi.h>
#include <time.h>

static int32_t invert(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = call->inputs[s].data;
    uint8_t *y = call->outputs[s].data;
    const int64_t n = opabi_numel(&call->inputs[s]);
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(255 - x[i]);
  }
  return OPABI_OK;
}
OPABI_KERNEL(invert, "uint8[...] -> uint8[...]", .traits = OPABI_PURE);

/* The same with a setup function, as a kernel has it whose sizes the signature cannot say. */
static int32_t invert_setup(const opabi_setup *setup) {
  setup->out_ndim[0] = setup->inputs[0].ndim;
  for (int64_t s = 0; s < setup->n_samples; s++) {
    for (int32_t d = 0; d < setup->inputs[s].ndim; d++)
      setup->out_shape[s * setup->max_ndim + d] = setup->inputs[s].shape[d];
  }
  return OPABI_OK;
}
static const opabi_kernel invert_by_setup_kernel = {
    .magic = OPABI_MAGIC,
    .struct_size = sizeof(opabi_kernel),
    .abi_min = OPABI_NEEDS,
    .name = "invert_by_setup",
    .signature = "uint8[...] -> uint8[...?]",
    .traits = OPABI_PURE,
    .device_type = OPABI_CPU,
    .setup = invert_setup,
    .run = invert,
};

/* The same for a fixed rank: setup then fills rows of that length. */
static int32_t vector_setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    setup->out_shape[s * setup->max_ndim] = setup->inputs[s].shape[0];
  }
  return OPABI_OK;
}
static const opabi_kernel invert_vector_kernel = {
    .magic = OPABI_MAGIC,
    .struct_size = sizeof(opabi_kernel),
    .abi_min = OPABI_NEEDS,
    .name = "invert_vector",
    .signature = "uint8[n] -> uint8[?]",
    .traits = OPABI_PURE,
    .device_type = OPABI_CPU,
    .setup = vector_setup,
    .run = invert,
};

static const uint8_t zero = 0;
static const opabi_tensor default_bias = {(void *)&zero, OPABI_CPU, 0,    0,
                                          OPABI_UINT8,   NULL,      NULL, 0};
static const opabi_arg bias_args[] = {{"bias", NULL, OPABI_UINT8, 0, &default_bias, 0}};
static int32_t add(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = call->inputs[s].data, bias = *(const uint8_t *)call->args[s].data;
    uint8_t *y = call->outputs[s].data;
    const int64_t n = opabi_numel(&call->inputs[s]);
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(x[i] + bias);
  }
  return OPABI_OK;
}
OPABI_KERNEL(add, "uint8[...] -> uint8[...]", .n_args = 1, .args = bias_args, .traits = OPABI_PURE);

/* 50 ms a sample without using a core, so that threads show on machines with few. */
static int32_t wait(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const struct timespec pause = {0, 50000000};
    nanosleep(&pause, NULL);
  }
  return invert(call);
}
OPABI_KERNEL(wait, "uint8[...] -> uint8[...]", .traits = OPABI_PURE);

OPABI_LIBRARY("bench", "1.0.0", &invert_kernel, &invert_by_setup_kernel, &invert_vector_kernel,
              &add_kernel, &wait_kernel)
