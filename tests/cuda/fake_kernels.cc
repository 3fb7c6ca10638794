// SPDX-License-Identifier: Apache-2.0
// "CUDA functions" of the fake driver: they get a launch's parameters and do its work on the host.
#include <cstdint>
#include <cstring>

#include "opabi/opabi.cuh"

extern "C" {

/// out = 255 - in for every row of an opabi::batch, block by block.
OPABI_VISIBLE void invert_batch(void **params, const unsigned *grid, const unsigned *) {
  const auto &b = *static_cast<const opabi::batch *>(params[0]);
  for (int row = 0; row < b.n_rows; row++) {
    const opabi::sample s{b, row};
    const opabi::word first = b.by_total ? b.cell(row, opabi::kRowFirstBlock) : 0;
    for (opabi::word i = 0; i < s.extent(); i++) {
      if (first + i / b.per_block >= grid[0]) continue;  // no block does it
      s.out<uint8_t>(0)[i] = static_cast<uint8_t>(255 - s.in<uint8_t>(0)[i]);
    }
  }
}

/// out = in * gain + bias[0] + number of the sample.
OPABI_VISIBLE void affine_batch(void **params, const unsigned *, const unsigned *) {
  const auto &b = *static_cast<const opabi::batch *>(params[0]);
  for (int row = 0; row < b.n_rows; row++) {
    const opabi::sample s{b, row};
    const float add = s.arg_data<float>(1)[s.arg_extent(1, 0) - 1] + static_cast<float>(s.index());
    for (opabi::word i = 0; i < s.in_extent(0, 0); i++)
      s.out<float>(0)[i] = s.in<float>(0)[i] * s.arg<float>(0) + add;
  }
}

/// (in, out, n, w, three): out[i] = in[i] + three + w
OPABI_VISIBLE void add_sample(void **params, const unsigned *, const unsigned *) {
  const auto *in = *static_cast<const int32_t *const *>(params[0]);
  auto *out = *static_cast<int32_t *const *>(params[1]);
  const int32_t n = *static_cast<const int32_t *>(params[2]),
                w = *static_cast<const int32_t *>(params[3]);
  const double three = *static_cast<const double *>(params[4]);
  for (int32_t i = 0; i < n; i++) out[i] = in[i] + static_cast<int32_t>(three) + w;
}

/// A kernel by hand: run copies through the device tables, which the fake driver keeps in host memory.
OPABI_VISIBLE int32_t tables_run(const opabi_call *call) {
  if (!call->stream || !call->device_inputs || !call->scratch[OPABI_SCRATCH_DEVICE] ||
      !call->scratch[OPABI_SCRATCH_PINNED]) {
    return OPABI_FAIL(call, OPABI_UNSET, OPABI_ERROR_INTERNAL, "something is missing");
  }
  for (int64_t s = 0; s < call->n_samples; s++) {
    const opabi_tensor &in = call->device_inputs[s], &out = call->device_outputs[s],
                       &add = call->device_args[s];
    if (in.shape == call->inputs[s].shape || add.data == call->args[s].data) {
      return OPABI_FAIL(call, s, OPABI_ERROR_INTERNAL, "a host pointer in the device's table");
    }
    for (int64_t i = 0; i < opabi_numel(&in); i++) {
      static_cast<int32_t *>(out.data)[i] =
          static_cast<int32_t *>(in.data)[i] + *static_cast<int32_t *>(add.data);
    }
  }
  return OPABI_OK;
}

OPABI_VISIBLE int32_t tables_setup(const opabi_setup *setup) {
  setup->scratch_bytes[OPABI_SCRATCH_DEVICE] = 1000;
  setup->scratch_bytes[OPABI_SCRATCH_PINNED] = 10;
  return OPABI_OK;
}
}
