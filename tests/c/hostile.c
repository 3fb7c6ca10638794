/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that load well and then break one rule each: what a host must survive and name. */
#include <opabi/opabi.h>
#include <string.h>

static int64_t *shape(const opabi_setup *setup, int64_t s) {
  return setup->out_shape + s * setup->n_out * setup->max_ndim;
}
static void set_all(const opabi_setup *setup, int32_t ndim, int64_t extent) {
  for (int32_t port = 0; port < setup->n_out; port++) setup->out_ndim[port] = ndim;
  for (int64_t s = 0; s < setup->n_samples; s++) {
    for (int32_t d = 0; d < ndim && d < setup->max_ndim; d++) shape(setup, s)[d] = extent;
  }
}

static int32_t zeros(const opabi_call *call) {
  for (int64_t i = 0; i < call->n_samples * call->n_out; i++) {
    const opabi_tensor *y = &call->outputs[i];
    memset(y->data, 0, (size_t)(opabi_numel(y) * ((y->dtype >> 8 & 0xFF) / 8)));
  }
  return OPABI_OK;
}

#define SAME "uint8[n] -> uint8[n]"
#define OPEN "uint8[n] -> uint8[?]"

/* ---- Statuses and messages
 * ------------------------------------------------------------------------ */

static int32_t returns_zero(const opabi_call *call) { return zeros(call) - OPABI_OK; }
OPABI_KERNEL(returns_zero, SAME);

static int32_t returns_garbage(const opabi_call *call) { return zeros(call) + 0x1234567; }
OPABI_KERNEL(returns_garbage, SAME);

static int32_t returns_negative(const opabi_call *call) {
  call->err_where[OPABI_WHERE_NATIVE] = -77;
  return OPABI_FAIL(call, call->n_samples - 1, -42, "its own code");
}
OPABI_KERNEL(returns_negative, SAME);

static int32_t silent(const opabi_call *call) { return call->n_samples ? OPABI_ERROR_VALUE : 0; }
OPABI_KERNEL(silent, SAME);

static int32_t message_long(const opabi_call *call) {
  char text[4096];
  for (size_t i = 0; i + 2 < sizeof text; i += 2) memcpy(text + i, "\xC3\xA9", 2); /* e acute */
  text[sizeof text - 2] = 0;
  return OPABI_FAIL(call, 0, OPABI_ERROR_VALUE, text);
}
OPABI_KERNEL(message_long, SAME);

static int32_t message_not_utf8(const opabi_call *call) {
  return OPABI_FAIL(call, 0, OPABI_ERROR_VALUE, "a\xFF\xC3(b");
}
OPABI_KERNEL(message_not_utf8, SAME);

static int32_t message_unterminated(const opabi_call *call) {
  memset(call->err, 'x', (size_t)call->err_cap);
  return OPABI_ERROR_VALUE;
}
OPABI_KERNEL(message_unterminated, SAME);

static int32_t where_out_of_range(const opabi_call *call) {
  for (int i = 0; i < 4; i++) call->err_where[i] = 1000000;
  return OPABI_FAIL(call, 1000000, OPABI_ERROR_VALUE, "far away");
}
OPABI_KERNEL(where_out_of_range, SAME);

/* ---- Setup
 * ---------------------------------------------------------------------------------------- */

#define SETUP_KERNEL(kernel, text)              \
  static const opabi_kernel kernel##_kernel = { \
      .magic = OPABI_MAGIC,                     \
      .struct_size = sizeof(opabi_kernel),      \
      .abi_min = OPABI_NEEDS,                   \
      .name = #kernel,                          \
      .signature = text,                        \
      .device_type = OPABI_CPU,                 \
      .setup = kernel,                          \
      .run = zeros,                             \
  }

static int32_t setup_nothing(const opabi_setup *setup) { return setup->n_in ? OPABI_OK : 0; }
SETUP_KERNEL(setup_nothing, OPEN);

static int32_t setup_zero(const opabi_setup *setup) {
  set_all(setup, 1, 1);
  return 0;
}
SETUP_KERNEL(setup_zero, OPEN);

static int32_t setup_fails(const opabi_setup *setup) {
  return OPABI_FAIL(setup, setup->n_samples - 1, OPABI_ERROR_INDEX, "no such size");
}
SETUP_KERNEL(setup_fails, OPEN);

static int32_t setup_negative(const opabi_setup *setup) {
  set_all(setup, 1, -5);
  return OPABI_OK;
}
SETUP_KERNEL(setup_negative, OPEN);

static int32_t setup_huge(const opabi_setup *setup) {
  set_all(setup, 1, (int64_t)1 << 50);
  return OPABI_OK;
}
SETUP_KERNEL(setup_huge, OPEN);

static int32_t setup_overflow(const opabi_setup *setup) {
  set_all(setup, 3, (int64_t)1 << 40);
  return OPABI_OK;
}
SETUP_KERNEL(setup_overflow, "uint8[n] -> uint8[?,?,?]");

static int32_t setup_wrong_rank(const opabi_setup *setup) {
  set_all(setup, 2, 1);
  return OPABI_OK;
}
SETUP_KERNEL(setup_wrong_rank, OPEN);

static int32_t setup_rank_16(const opabi_setup *setup) {
  set_all(setup, 16, 1);
  return OPABI_OK;
}
SETUP_KERNEL(setup_rank_16, "uint8[n] -> uint8[...?]");

static int32_t setup_rank_unset(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) shape(setup, s)[0] = 1;
  return OPABI_OK;
}
SETUP_KERNEL(setup_rank_unset, "uint8[n] -> uint8[...?]");

static int32_t setup_unknown_dtype(const opabi_setup *setup) {
  setup->out_dtype[0] = 0x00028005; /* complex128's neighbour */
  return OPABI_OK;
}
SETUP_KERNEL(setup_unknown_dtype, "uint8[n] -> ?[n]");

static int32_t setup_dtype_unset(const opabi_setup *setup) { return setup->n_in ? OPABI_OK : 0; }
SETUP_KERNEL(setup_dtype_unset, "uint8[n] -> ?[n]");

static int32_t setup_changes_shape(const opabi_setup *setup) {
  set_all(setup, 2, 1);
  return OPABI_OK;
}
SETUP_KERNEL(setup_changes_shape, "uint8[n] -> uint8[n,?]");

static int32_t setup_changes_dtype(const opabi_setup *setup) {
  set_all(setup, 1, 1);
  setup->out_dtype[0] = OPABI_FLOAT32;
  return OPABI_OK;
}
SETUP_KERNEL(setup_changes_dtype, OPEN);

static int32_t setup_layout_unterminated(const opabi_setup *setup) {
  set_all(setup, 1, 1);
  memset(setup->out_layout, 'H', OPABI_LAYOUT_SIZE);
  return OPABI_OK;
}
SETUP_KERNEL(setup_layout_unterminated, OPEN);

static int32_t setup_layout_too_long(const opabi_setup *setup) {
  set_all(setup, 1, 1);
  memcpy(setup->out_layout, "HWC", 4);
  return OPABI_OK;
}
SETUP_KERNEL(setup_layout_too_long, OPEN);

static int32_t setup_scratch_negative(const opabi_setup *setup) {
  set_all(setup, 1, 1);
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = -1;
  return OPABI_OK;
}
SETUP_KERNEL(setup_scratch_negative, OPEN);

static int32_t setup_scratch_huge(const opabi_setup *setup) {
  set_all(setup, 1, 1);
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = (int64_t)1 << 60;
  return OPABI_OK;
}
SETUP_KERNEL(setup_scratch_huge, OPEN);

/* ---- Memory
 * --------------------------------------------------------------------------------------- */

/* Sets a byte of sample 0's output, at a place counted from its start or from its end. */
static int32_t spoil(const opabi_call *call, int64_t place, int from_end) {
  zeros(call);
  const opabi_tensor *y = call->outputs;
  ((uint8_t *)y->data)[place + (from_end ? opabi_numel(y) : 0)] = 77;
  return OPABI_OK;
}
static int32_t writes_past(const opabi_call *call) { return spoil(call, 0, 1); }
OPABI_KERNEL(writes_past, SAME);

static int32_t writes_before(const opabi_call *call) { return spoil(call, -1, 0); }
OPABI_KERNEL(writes_before, SAME);

static int32_t writes_input(const opabi_call *call) {
  zeros(call);
  if (opabi_numel(call->inputs) > 0) ((uint8_t *)call->inputs->data)[0] ^= 0xFF;
  return OPABI_OK;
}
OPABI_KERNEL(writes_input, SAME);

static int32_t writes_half(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    memset(call->outputs[s].data, 3, (size_t)(opabi_numel(&call->outputs[s]) / 2));
  }
  return OPABI_OK;
}
OPABI_KERNEL(writes_half, SAME);

static int32_t scratch_past_setup(const opabi_setup *setup) {
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = 100;
  return OPABI_OK;
}
static int32_t scratch_past(const opabi_call *call) {
  ((uint8_t *)call->scratch[OPABI_SCRATCH_HOST])[call->scratch_bytes[OPABI_SCRATCH_HOST]] = 1;
  return zeros(call);
}
OPABI_KERNEL(scratch_past, SAME, .setup = scratch_past_setup);

/* ---- Actual sizes
 * --------------------------------------------------------------------------------- */

#define BOUNDED "uint8[n] -> uint8[<=n]"
static int32_t actual_unset(const opabi_call *call) { return zeros(call); }
OPABI_KERNEL(actual_unset, BOUNDED);

static int32_t actual_too_large(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    call->out_actual[s * call->max_ndim] = opabi_numel(&call->outputs[s]) + 1;
  }
  return zeros(call);
}
OPABI_KERNEL(actual_too_large, BOUNDED);

static int32_t actual_negative(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) call->out_actual[s * call->max_ndim] = -2;
  return zeros(call);
}
OPABI_KERNEL(actual_negative, BOUNDED);

/* ---- Create and specialize
 * ------------------------------------------------------------------------ */

static int32_t create_fails_create(const opabi_create *create) {
  return OPABI_FAIL(create, OPABI_UNSET, OPABI_ERROR_OUT_OF_MEMORY, "no room");
}
static void create_fails_destroy(void *user_data, void *instance) {
  (void)user_data;
  *(volatile int *)instance = 0; /* ends the process if it is called */
}
static int32_t create_fails(const opabi_call *call) { return zeros(call); }
OPABI_KERNEL(create_fails, SAME, .create = create_fails_create, .destroy = create_fails_destroy);

static int32_t specialize_fails_specialize(const opabi_specialize *specialize) {
  return OPABI_FAIL(specialize, OPABI_UNSET, OPABI_ERROR_TYPE, "not for these types");
}
static int32_t specialize_fails(const opabi_call *call) { return zeros(call); }
OPABI_KERNEL(specialize_fails, "T[...] -> T[...]", .specialize = specialize_fails_specialize);

static int32_t specialize_null(const opabi_specialize *specialize) {
  *specialize->out_run = NULL;
  return OPABI_OK;
}
static const opabi_kernel specialize_null_kernel = {
    .magic = OPABI_MAGIC,
    .struct_size = sizeof(opabi_kernel),
    .abi_min = OPABI_NEEDS,
    .name = "specialize_null",
    .signature = "T[...] -> T[...]",
    .device_type = OPABI_CPU,
    .specialize = specialize_null,
};

OPABI_LIBRARY("hostile", "1.0.0", &returns_zero_kernel, &returns_garbage_kernel,
              &returns_negative_kernel, &silent_kernel, &message_long_kernel,
              &message_not_utf8_kernel, &message_unterminated_kernel, &where_out_of_range_kernel,
              &setup_nothing_kernel, &setup_zero_kernel, &setup_fails_kernel,
              &setup_negative_kernel, &setup_huge_kernel, &setup_overflow_kernel,
              &setup_wrong_rank_kernel, &setup_rank_16_kernel, &setup_rank_unset_kernel,
              &setup_unknown_dtype_kernel, &setup_dtype_unset_kernel, &setup_changes_shape_kernel,
              &setup_changes_dtype_kernel, &setup_layout_unterminated_kernel,
              &setup_layout_too_long_kernel, &setup_scratch_negative_kernel,
              &setup_scratch_huge_kernel, &writes_past_kernel, &writes_before_kernel,
              &writes_input_kernel, &writes_half_kernel, &scratch_past_kernel, &actual_unset_kernel,
              &actual_too_large_kernel, &actual_negative_kernel, &create_fails_kernel,
              &specialize_fails_kernel, &specialize_null_kernel)
