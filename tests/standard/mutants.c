/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that copy their input, or nearly: each breaks one rule of kind K, so that its test must fail. */
#define _GNU_SOURCE
#include <fenv.h>
#include <opabi/opabi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t copy(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t n = opabi_numel(&call->inputs[s]);
    if (n) memcpy(call->outputs[s].data, call->inputs[s].data, (size_t)n * 4);
  }
  return OPABI_OK;
}
static int32_t *first(const opabi_call *call) { return call->outputs[0].data; }
static int64_t length(const opabi_call *call) { return opabi_numel(call->outputs); }

#define MUTANT(name) OPABI_KERNEL(name, "int32[n] -> int32[n]")

static int32_t faithful(const opabi_call *call) { return copy(call); }
MUTANT(faithful);

static int32_t writes_input(const opabi_call *call) {
  if (length(call)) *(int32_t *)call->inputs[0].data = 0;
  return copy(call);
}
MUTANT(writes_input);

static int32_t writes_past(const opabi_call *call) {
  if (length(call)) first(call)[length(call)] = 1;
  return copy(call);
}
MUTANT(writes_past);

static int32_t reads_before(const opabi_call *call) {
  volatile int32_t read = 0;
  if (length(call)) read = ((const int32_t *)call->inputs[0].data)[-1];
  (void)read;
  return copy(call);
}
MUTANT(reads_before);

static int32_t writes_table(const opabi_call *call) {
  ((opabi_tensor *)call->outputs)->dtype = OPABI_UINT32;
  return copy(call);
}
MUTANT(writes_table);

static int32_t writes_half(const opabi_call *call) {
  const int64_t n = length(call);
  const int32_t last = n ? first(call)[n - 1] : 0;
  copy(call);
  if (n) first(call)[n - 1] = last;
  return OPABI_OK;
}
MUTANT(writes_half);

static int32_t follows_empty(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    if (*(const volatile int32_t *)call->inputs[s].data == 12345) return OPABI_OK;
  }
  return copy(call);
}
MUTANT(follows_empty);

static int32_t wants_alignment(const opabi_call *call) {
  if ((uintptr_t)first(call) % 8) return OPABI_FAIL(call, 0, OPABI_ERROR_VALUE, "not aligned to 8");
  return copy(call);
}
MUTANT(wants_alignment);

static int32_t wants_size(const opabi_call *call) {
  return call->struct_size == sizeof *call ? copy(call) : OPABI_ERROR_ABI;
}
MUTANT(wants_size);

static int32_t keeps_pointer(const opabi_call *call) {
  static const int32_t *kept;
  if (kept && *(const volatile int32_t *)kept == 12345) return OPABI_OK;
  if (length(call)) kept = call->inputs[0].data;
  return copy(call);
}
MUTANT(keeps_pointer);

static int32_t shows_range(const opabi_call *call) {
  copy(call);
  if (length(call) && call->n_samples == 1) first(call)[0]++;
  return OPABI_OK;
}
MUTANT(shows_range);

static int32_t returns_zero(const opabi_call *call) { return copy(call) - OPABI_OK; }
MUTANT(returns_zero);

static int32_t changes_rounding(const opabi_call *call) {
  fesetround(FE_DOWNWARD);
  return copy(call);
}
MUTANT(changes_rounding);

static void *sleeps(void *unused) {
  sleep(5);
  return unused;
}
static int32_t leaves_thread(const opabi_call *call) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, sleeps, NULL) == 0) pthread_detach(thread);
  return copy(call);
}
MUTANT(leaves_thread);

static int32_t shares_state(const opabi_call *call) {
  static int32_t state[1024];
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int64_t n = opabi_numel(&call->inputs[s]);
    if (n) memcpy(state, call->inputs[s].data, (size_t)n * 4);
    usleep(200 * (unsigned)(n % 7));
    if (n) memcpy(call->outputs[s].data, state, (size_t)n * 4);
  }
  return OPABI_OK;
}
MUTANT(shares_state);

#define SETUP_MUTANT(name) OPABI_KERNEL(name, "int32[n] -> int32[n]", .setup = name##_setup)

static int32_t impure_setup(const opabi_setup *setup) {
  static int64_t calls;
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = 8 * ++calls;
  return OPABI_OK;
}
static int32_t impure(const opabi_call *call) { return copy(call); }
SETUP_MUTANT(impure);

static int32_t reads_in_setup_setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) {
    const opabi_tensor *x = &setup->inputs[s];
    if (opabi_numel(x) && *(const volatile int32_t *)x->data == 12345) return OPABI_ERROR_VALUE;
  }
  return OPABI_OK;
}
static int32_t reads_in_setup(const opabi_call *call) { return copy(call); }
SETUP_MUTANT(reads_in_setup);

static int32_t changes_slot_setup(const opabi_setup *setup) {
  setup->out_shape[0]++;
  return OPABI_OK;
}
static int32_t changes_slot(const opabi_call *call) { return copy(call); }
SETUP_MUTANT(changes_slot);

static int32_t past_scratch_setup(const opabi_setup *setup) {
  setup->scratch_bytes[OPABI_SCRATCH_HOST] = 100;
  return OPABI_OK;
}
static int32_t past_scratch(const opabi_call *call) {
  memset(call->scratch[OPABI_SCRATCH_HOST], 0, 101);
  return copy(call);
}
SETUP_MUTANT(past_scratch);

OPABI_LIBRARY("mutants", "1.0.0", &faithful_kernel, &writes_input_kernel, &writes_past_kernel,
              &reads_before_kernel, &writes_table_kernel, &writes_half_kernel,
              &follows_empty_kernel, &wants_alignment_kernel, &wants_size_kernel,
              &keeps_pointer_kernel, &shows_range_kernel, &returns_zero_kernel,
              &changes_rounding_kernel, &leaves_thread_kernel, &shares_state_kernel, &impure_kernel,
              &reads_in_setup_kernel, &changes_slot_kernel, &past_scratch_kernel)
