/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels in C that the tests of hosts and adapters share: one for each thing a host must serve. */
#define _POSIX_C_SOURCE 200809L

#include <opabi/opabi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

static const opabi_tensor *in(const opabi_call *call, int64_t s, int32_t port) {
  return &call->inputs[s * call->n_in + port];
}
static const opabi_tensor *out(const opabi_call *call, int64_t s, int32_t port) {
  return &call->outputs[s * call->n_out + port];
}
static const opabi_tensor *arg(const opabi_call *call, int64_t s, int32_t a) {
  return &call->args[s * call->n_args + a];
}
static int64_t element_size(uint32_t dtype) { return (dtype >> 8 & 0xFF) / 8; }

static void copy(void *target, const void *source, int64_t bytes) {
  if (bytes > 0) memcpy(target, source, (size_t)bytes);
}
static int64_t *out_shape(const opabi_setup *setup, int64_t s, int32_t port) {
  return setup->out_shape + (s * setup->n_out + port) * setup->max_ndim;
}

/* ---- Same shape
 * ---------------------------------------------------------------------------------- */

static int32_t invert(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = in(call, s, 0)->data;
    uint8_t *y = out(call, s, 0)->data;
    const int64_t n = opabi_numel(in(call, s, 0));
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(255 - x[i]);
  }
  return OPABI_OK;
}
OPABI_KERNEL(invert, "uint8[...] -> uint8[...]", .doc = "255 minus each element.",
             .traits = OPABI_PURE | OPABI_DETERMINISTIC);

static int32_t identity(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor *x = in(call, s, 0);
    copy(out(call, s, 0)->data, x->data, opabi_numel(x) * element_size(x->dtype));
  }
  return OPABI_OK;
}
OPABI_KERNEL(identity, "T[...] -> T[...]", .doc = "A copy, of any type and shape.");

static const opabi_kernel half_kernel = {
    .magic = OPABI_MAGIC,
    .struct_size = sizeof(opabi_kernel),
    .abi_min = OPABI_NEEDS,
    .name = "half",
    .doc = "A copy of a float16 tensor.",
    .signature = "float16[...] -> float16[...]",
    .device_type = OPABI_CPU,
    .run = identity,
};

/* ---- Other types and shapes
 * ---------------------------------------------------------------------- */

static int32_t to_float(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const uint8_t *x = in(call, s, 0)->data;
    float *y = out(call, s, 0)->data;
    const int64_t n = opabi_numel(in(call, s, 0));
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i] / 255.0f;
  }
  return OPABI_OK;
}
OPABI_KERNEL(to_float, "uint8[...] -> float32[...]", .doc = "x / 255.");

static int32_t joined_setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    const opabi_tensor *x = &setup->inputs[s * setup->n_in];
    out_shape(setup, s, 0)[0] = x[0].shape[0] + x[1].shape[0];
  }
  return OPABI_OK;
}
static int32_t joined(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    int32_t *y = out(call, s, 0)->data;
    for (int32_t port = 0; port < 2; port++) {
      const int64_t n = in(call, s, port)->shape[0];
      copy(y, in(call, s, port)->data, n * 4);
      y += n;
    }
  }
  return OPABI_OK;
}
OPABI_KERNEL(joined, "int32[n], int32[m] -> int32[?]", .setup = joined_setup,
             .doc = "Two vectors, one after the other; its setup adds the lengths.");

static int32_t transpose_chw(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor *x = in(call, s, 0);
    const int64_t pixels = x->shape[0] * x->shape[1], channels = x->shape[2];
    const int64_t size = element_size(x->dtype);
    const char *from = x->data;
    char *to = out(call, s, 0)->data;
    for (int64_t c = 0; c < channels; c++) {
      for (int64_t p = 0; p < pixels; p++, to += size)
        copy(to, from + (p * channels + c) * size, size);
    }
  }
  return OPABI_OK;
}
OPABI_KERNEL(transpose_chw, "T[h,w,c]@HWC -> T[c,h,w]@CHW", .doc = "Channels first.");

static int32_t layout_of_setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    out_shape(setup, s, 0)[0] = (int64_t)strlen(setup->in_layouts[0]);
  }
  return OPABI_OK;
}
static int32_t layout_of(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    copy(out(call, s, 0)->data, call->in_layouts[0], out(call, s, 0)->shape[0]);
  }
  return OPABI_OK;
}
OPABI_KERNEL(layout_of, "T[...] -> uint8[?]", .setup = layout_of_setup,
             .doc = "The bytes of its input's layout.");

static int32_t keep_greater(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int32_t *x = in(call, s, 0)->data;
    const int32_t limit = *(const int32_t *)arg(call, s, 0)->data;
    int32_t *y = out(call, s, 0)->data;
    int64_t kept = 0;
    for (int64_t i = 0; i < in(call, s, 0)->shape[0]; i++) {
      if (x[i] > limit) y[kept++] = x[i];
    }
    call->out_actual[s * call->n_out * call->max_ndim] = kept;
  }
  return OPABI_OK;
}
static int32_t four = 4;
static const opabi_tensor four_tensor = {&four, OPABI_CPU, 0, 0, OPABI_INT32, NULL, NULL, 0};
static const opabi_arg keep_greater_args[] = {
    {"limit", "What is kept is greater.", OPABI_INT32, 0, &four_tensor, 0}};
OPABI_KERNEL(keep_greater, "int32[n] -> int32[<=n]", .n_args = COUNT(keep_greater_args),
             .args = keep_greater_args, .doc = "The elements above a limit; run decides how many.");

static int32_t median_setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    const int64_t bytes = opabi_numel(&setup->inputs[s]) * 4;
    if (bytes > setup->scratch_bytes[OPABI_SCRATCH_HOST]) {
      setup->scratch_bytes[OPABI_SCRATCH_HOST] = bytes;
    }
  }
  return OPABI_OK;
}
static int compare_floats(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}
static int32_t median(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t n = opabi_numel(in(call, s, 0));
    if (n == 0) return OPABI_FAIL(call, s, OPABI_ERROR_VALUE, "no median of no elements");
    float *sorted = call->scratch[OPABI_SCRATCH_HOST];
    copy(sorted, in(call, s, 0)->data, n * 4);
    qsort(sorted, (size_t)n, 4, compare_floats);
    *(float *)out(call, s, 0)->data = sorted[n / 2];
  }
  return OPABI_OK;
}
OPABI_KERNEL(median, "float32[n] -> float32", .setup = median_setup,
             .doc = "The upper median, by scratch memory.");

/* ---- Named arguments
 * ----------------------------------------------------------------------------- */

static int32_t affine(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor *gain = arg(call, s, 0);
    const float *x = in(call, s, 0)->data, *g = gain->data;
    const float bias = *(const float *)arg(call, s, 1)->data;
    float *y = out(call, s, 0)->data;
    const int64_t n = in(call, s, 0)->shape[0];
    const int64_t step = gain->ndim == 0 ? 0 : 1;
    if (gain->ndim > 1 || (gain->ndim == 1 && gain->shape[0] != n)) {
      return OPABI_FAIL(call, s, OPABI_ERROR_VALUE, "gain is neither a number nor one per element");
    }
    for (int64_t i = 0; i < n; i++) y[i] = g[i * step] * x[i] + bias;
  }
  return OPABI_OK;
}
static float zero = 0;
static const opabi_tensor zero_tensor = {&zero, OPABI_CPU, 0, 0, OPABI_FLOAT32, NULL, NULL, 0};
static const opabi_arg affine_args[] = {
    {"gain", "A number, or one for each element.", OPABI_FLOAT32, OPABI_NDIM_ANY, NULL, 0},
    {"bias", "What is added.", OPABI_FLOAT32, 0, &zero_tensor, 0}};
OPABI_KERNEL(affine, "float32[n] -> float32[n]", .n_args = COUNT(affine_args), .args = affine_args,
             .doc = "gain * x + bias.");

static int32_t spelled_setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    out_shape(setup, s, 0)[0] = setup->args[s * setup->n_args].shape[0];
  }
  return OPABI_OK;
}
static int32_t spelled(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    copy(out(call, s, 0)->data, arg(call, s, 0)->data, arg(call, s, 0)->shape[0]);
  }
  return OPABI_OK;
}
static const opabi_arg spelled_args[] = {{"text", NULL, OPABI_UINT8, 1, NULL, 0}};
OPABI_KERNEL(spelled, "T[...] -> uint8[?]", .setup = spelled_setup, .n_args = COUNT(spelled_args),
             .args = spelled_args, .doc = "The bytes of a string argument.");

static int32_t sized(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor *y = out(call, s, 0);
    memset(y->data, 7, (size_t)opabi_numel(y));
  }
  return OPABI_OK;
}
static const opabi_arg sized_args[] = {{"height", NULL, OPABI_INT64, 0, NULL, 0},
                                       {"width", NULL, OPABI_INT64, 0, NULL, 0}};
OPABI_KERNEL(sized, "uint8[...] -> uint8[height,width]", .n_args = COUNT(sized_args),
             .args = sized_args, .doc = "Sevens, in the shape that the arguments give.");

static int32_t seeded(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    *(int64_t *)out(call, s, 0)->data = *(const int64_t *)arg(call, s, 0)->data;
  }
  return OPABI_OK;
}
static const opabi_arg seeded_args[] = {{"seed", NULL, OPABI_INT64, 0, NULL, 0}};
OPABI_KERNEL(seeded, "T[...] -> int64", .n_args = COUNT(seeded_args), .args = seeded_args,
             .doc = "The seed it got.");

/* ---- Failing
 * -------------------------------------------------------------------------------------- */

static int32_t fail_on_one(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int32_t *x = in(call, s, 0)->data;
    int32_t *y = out(call, s, 0)->data;
    const int64_t n = in(call, s, 0)->shape[0];
    if (n > 0 && x[0] == 1) return OPABI_FAIL(call, s, OPABI_ERROR_VALUE, "no face");
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + 10;
  }
  return OPABI_OK;
}
OPABI_KERNEL(fail_on_one, "int32[n] -> int32[n]", .doc = "x + 10; \"no face\" where x[0] is 1.");

static int32_t fail_with(const opabi_call *call) {
  const int32_t status = *(const int32_t *)in(call, 0, 0)->data;
  return OPABI_FAIL(call, 0, status, "as it was told");
}
OPABI_KERNEL(fail_with, "int32 -> int32", .doc = "Fails with the status that its input says.");

/* ---- Numbers of ports
 * ------------------------------------------------------------------------------ */

static int32_t eight(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    for (int32_t j = 0; j < 8; j++) {
      const int16_t *x = in(call, s, 7 - j)->data;
      int16_t *y = out(call, s, j)->data;
      const int64_t n = opabi_numel(out(call, s, j));
      for (int64_t i = 0; i < n; i++) y[i] = (int16_t)(x[i] + j);
    }
  }
  return OPABI_OK;
}
OPABI_KERNEL(eight,
             "int16[a], int16[b], int16[c], int16[d], int16[e], int16[f], int16[g], int16[h] -> "
             "int16[h], int16[g], int16[f], int16[e], int16[d], int16[c], int16[b], int16[a]",
             .doc = "Output j is input 7-j plus j.");

static int32_t source(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    *(int64_t *)out(call, s, 0)->data = call->first_sample + s;
    for (int32_t i = 0; i < 3; i++) ((float *)out(call, s, 1)->data)[i] = (float)i;
  }
  return OPABI_OK;
}
OPABI_KERNEL(source, "-> int64, float32[3]", .doc = "The sample's number in its batch, and 0 1 2.");

static int64_t sunk_samples;
static int32_t sink(const opabi_call *call) {
  __atomic_add_fetch(&sunk_samples, call->n_samples, __ATOMIC_RELAXED);
  return OPABI_OK;
}
OPABI_KERNEL(sink, "T[...] ->", .doc = "Counts the samples it gets; sunk tells how many.");

static int32_t sunk(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    *(int64_t *)out(call, s, 0)->data = __atomic_load_n(&sunk_samples, __ATOMIC_RELAXED);
  }
  return OPABI_OK;
}
OPABI_KERNEL(sunk, "-> int64", .doc = "How many samples sink got in this process.");

/* ---- State, variants, ranges
 * ----------------------------------------------------------------------- */

static int32_t counter_create(const opabi_create *create) {
  *create->out_instance = calloc(1, sizeof(int64_t));
  if (*create->out_instance) return OPABI_OK;
  return OPABI_FAIL(create, OPABI_UNSET, OPABI_ERROR_OUT_OF_MEMORY, "no memory for a counter");
}
static void counter_destroy(void *user_data, void *instance) {
  (void)user_data;
  free(instance);
}
static int32_t counter_save(const opabi_state *state) {
  *state->out_bytes = sizeof(int64_t);
  if (state->capacity >= (int64_t)sizeof(int64_t))
    copy(state->buffer, state->instance, sizeof(int64_t));
  return OPABI_OK;
}
static int32_t counter_restore(const opabi_state *state) {
  if (state->capacity != sizeof(int64_t)) {
    return OPABI_FAIL(state, OPABI_UNSET, OPABI_ERROR_VALUE, "no saved counter");
  }
  copy(state->instance, state->buffer, sizeof(int64_t));
  return OPABI_OK;
}
static int32_t counter(const opabi_call *call) {
  int64_t *count = call->instance;
  for (int64_t s = 0; s < call->n_samples; s++) *(int64_t *)out(call, s, 0)->data = (*count)++;
  return OPABI_OK;
}
OPABI_KERNEL(counter, "T[...] -> int64", .create = counter_create, .destroy = counter_destroy,
             .save = counter_save, .restore = counter_restore, .critical = OPABI_WHOLE_BATCH,
             .doc = "How many samples came before in this operator.");

#define NEGATE(type)                                     \
  static int32_t negate_##type(const opabi_call *call) { \
    for (int64_t s = 0; s < call->n_samples; s++) {      \
      const type *x = in(call, s, 0)->data;              \
      type *y = out(call, s, 0)->data;                   \
      const int64_t n = opabi_numel(in(call, s, 0));     \
      for (int64_t i = 0; i < n; i++) y[i] = -x[i];      \
    }                                                    \
    return OPABI_OK;                                     \
  }
NEGATE(int32_t)
NEGATE(float)
static int32_t negate_specialize(const opabi_specialize *specialize) {
  if (specialize->in_dtype[0] == OPABI_INT32) {
    *specialize->out_run = negate_int32_t;
  } else if (specialize->in_dtype[0] == OPABI_FLOAT32) {
    *specialize->out_run = negate_float;
  } else {
    return OPABI_FAIL(specialize, OPABI_UNSET, OPABI_ERROR_TYPE, "negate takes int32 and float32");
  }
  return OPABI_OK;
}
static const opabi_kernel negate_kernel = {
    .magic = OPABI_MAGIC,
    .struct_size = sizeof(opabi_kernel),
    .abi_min = OPABI_NEEDS,
    .name = "negate",
    .doc = "-x, by a function for each type.",
    .signature = "T[...] -> T[...]",
    .device_type = OPABI_CPU,
    .specialize = negate_specialize,
};

static int32_t row_sums(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor *x = in(call, s, 0);
    const float *from = x->data;
    for (int64_t i = 0; i < x->shape[0]; i++) {
      float sum = 0;
      for (int64_t j = 0; j < x->shape[1]; j++) sum += from[i * x->strides[0] + j * x->strides[1]];
      ((float *)out(call, s, 0)->data)[i] = sum;
    }
  }
  return OPABI_OK;
}
OPABI_KERNEL(row_sums, "float32[h,w] -> float32[h]", .traits = OPABI_ANY_STRIDES,
             .doc = "The sum of each row; takes any strides.");

static int32_t split(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    int64_t *y = out(call, s, 0)->data;
    y[0] = call->first_sample + s;
    y[1] = call->batch_size;
    y[2] = call->n_samples;
    y[3] = call->worker;
  }
  return OPABI_OK;
}
OPABI_KERNEL(split, "T[...] -> int64[4]",
             .doc = "Number in the batch, batch size, size of the range, worker.");

static const opabi_kernel whole_kernel = {
    .magic = OPABI_MAGIC,
    .struct_size = sizeof(opabi_kernel),
    .abi_min = OPABI_NEEDS,
    .name = "whole",
    .doc = "As split, for a kernel that wants its batch whole.",
    .signature = "T[...] -> int64[4]",
    .critical = OPABI_WHOLE_BATCH,
    .device_type = OPABI_CPU,
    .run = split,
};

static int32_t slow(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t us = *(const int64_t *)arg(call, s, 0)->data;
    const struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
  }
  return identity(call);
}
static const opabi_arg slow_args[] = {
    {"us", "Microseconds for each sample.", OPABI_INT64, 0, NULL, 0}};
OPABI_KERNEL(slow, "T[...] -> T[...]", .n_args = COUNT(slow_args), .args = slow_args,
             .doc = "A copy that takes its time.");

OPABI_LIBRARY("kernels", "1.0.0", &invert_kernel, &identity_kernel, &half_kernel, &to_float_kernel,
              &joined_kernel, &transpose_chw_kernel, &layout_of_kernel, &keep_greater_kernel,
              &median_kernel, &affine_kernel, &spelled_kernel, &sized_kernel, &seeded_kernel,
              &fail_on_one_kernel, &fail_with_kernel, &eight_kernel, &source_kernel, &sink_kernel,
              &sunk_kernel, &counter_kernel, &negate_kernel, &row_sums_kernel, &split_kernel,
              &whole_kernel, &slow_kernel)
