// SPDX-License-Identifier: Apache-2.0
// The engine's second half: from allocated outputs to a finished batch.
#include <algorithm>
#include <new>

#include "core/dtype.h"
#include "core/ended_thread.h"
#include "core/engine.h"
#include "core/engine_worker.h"
#include "core/error.h"

namespace opabi {

void Engine::Run(const RunContext &context) {
  if (n_samples_ == 0) return;  // OPABI-H-012
  PrepareOutputs();
  if (kernel_->descriptor().device_type != OPABI_CPU) {
    RunCuda(context);
  } else if (options_.checked) {
    RunChecked();
  } else {
    // One thread, one range: where the batch must not be split, where calls on the instance must not
    // overlap (OPABI-H-010, OPABI-H-011), and where Python's lock would make the threads wait in turn.
    const bool serial = kernel_->demands(OPABI_WHOLE_BATCH) || kernel_->has(OPABI_TAKES_GIL) ||
                        (kernel_->has_instance() && !kernel_->has(OPABI_REENTRANT));
    const int n =
        serial ? 1 : static_cast<int>(std::min<int64_t>(context.pool->size(), n_samples_));
    PrepareWorkers(n);
    if (n == 1) {
      CallRange(0, 0, n_samples_);
    } else {
      schedule_.Run(
          n_samples_, BatchBytes(), *context.pool,
          [this](int worker, int64_t begin, int64_t end) { CallRange(worker, begin, end); });
    }
  }
  const Failure *first = nullptr;
  for (const auto &worker : workers_) {
    const Failure &failure = worker->failure;
    if (failure.happened && (!first || failure.sample() < first->sample())) first = &failure;
  }
  if (first) ThrowFailure(*kernel_, "run", *first);
  CheckActualShapes();
}

void Engine::PrepareOutputs() {
  for (int port = 0; port < n_out_; port++) {
    if (!bounded_[port]) continue;
    const int64_t size = DtypeSize(out_info_[port].dtype);
    int64_t total = 0;
    for (int64_t s = 0; s < n_samples_; s++) {
      outputs_.Set(s, port, out_info_[port], nullptr, shape(s, port));
      total += opabi_numel(&outputs_.at(s, port)) * size;
    }
    bounded_data_[port].resize(static_cast<size_t>(total));
    char *next = bounded_data_[port].data();
    for (int64_t s = 0; s < n_samples_; s++) {
      opabi_tensor &tensor = outputs_.at(s, port);
      tensor.data = next;
      next += opabi_numel(&tensor) * size;
    }
  }
  outputs_.FillStrides();
  if (!kernel_->signature().bounded()) return;
  out_actual_ = out_shape_;
  for (int64_t s = 0; s < n_samples_; s++) ResetActual(s);
}

void Engine::ResetActual(int64_t sample) {
  for (int port = 0; port < n_out_; port++) {
    if (!bounded_[port]) continue;
    int64_t *actual = out_actual_.data() + (sample * n_out_ + port) * max_ndim_;
    for (int32_t d = 0; d < out_info_[port].ndim; d++) {
      if (IsBounded(port, d)) actual[d] = OPABI_UNSET;
    }
  }
}

bool Engine::IsBounded(int port, int32_t d) const {
  // An ellipsis stands for as many dimensions as the rank has more than the port has other entries.
  const Port &declared = kernel_->signature().outputs()[port];
  const int at = declared.ellipsis_at(), entries = static_cast<int>(declared.dims.size());
  int entry = d;
  if (at >= 0 && d >= at) {
    const int stretch = out_info_[port].ndim - (entries - 1);
    entry = d < at + stretch ? at : d - stretch + 1;
  }
  const Dim::Kind kind = declared.dims[entry].kind;
  return kind == Dim::kBounded || kind == Dim::kBoundedOpen;
}

int64_t Engine::BatchBytes() const {
  const int64_t alike = uniform_ ? n_samples_ : 1;
  int64_t bytes = output_bytes_;
  for (int64_t s = 0; s < n_samples_; s += alike) {
    for (int port = 0; port < n_in_; port++) {
      bytes += opabi_numel(&inputs_.at(s, port)) * DtypeSize(in_info_[port].dtype) * alike;
    }
  }
  return bytes;
}

void Engine::PrepareWorkers(int n) {
  while (static_cast<int>(workers_.size()) < n) workers_.push_back(std::make_unique<Worker>());
  const bool device = kernel_->descriptor().device_type != OPABI_CPU;
  for (int i = 0; i < 3; i++) {
    if (scratch_bytes_[i] >= 0 && (device || i == OPABI_SCRATCH_HOST || scratch_bytes_[i] == 0))
      continue;
    throw Error(
        Kind::kRuntime, "OPABI-K-027",
        "kernel '" + kernel_->name() + "': setup asked for " + std::to_string(scratch_bytes_[i]) +
            " bytes of " +
            (i == OPABI_SCRATCH_HOST     ? "host"
             : i == OPABI_SCRATCH_DEVICE ? "device"
                                         : "pinned") +
            " scratch, which " +
            (device ? "no kernel can have." : "a kernel that works on the CPU cannot have."));
  }
  for (const auto &worker : workers_) {
    if (worker->failure.happened) worker->failure = Failure();
  }
  const int64_t bytes = scratch_bytes_[OPABI_SCRATCH_HOST];
  for (int i = 0; i < n; i++) {
    try {
      workers_[i]->scratch_table[OPABI_SCRATCH_HOST] =
          bytes ? workers_[i]->scratch.Reserve(bytes) : nullptr;
    } catch (const std::bad_alloc &) {
      throw Error(Kind::kMemory, "OPABI-H-015",
                  "kernel '" + kernel_->name() + "': no memory for " + std::to_string(bytes) +
                      " bytes of host scratch, which its setup asked for.");
    }
  }
}

void Engine::FillCall(int index, int64_t begin, int64_t end, opabi_call *filled) {
  Worker &worker = *workers_[index];
  worker.error.Reset();
  opabi_call &call = *filled;
  call = {};
  call.struct_size = sizeof call;
  call.abi = OPABI_VERSION(OPABI_MAJOR, OPABI_MINOR);
  call.user_data = functions_.user_data;
  call.instance = instance_;
  call.n_in = n_in_;
  call.n_out = n_out_;
  call.n_args = n_args_;
  call.max_ndim = max_ndim_;
  call.n_samples = end - begin;
  call.first_sample = begin;
  call.batch_size = n_samples_;
  call.inputs = inputs_.row(begin);
  call.outputs = outputs_.row(begin);
  call.args = arguments_.table().row(begin);
  call.in_layouts = in_layouts_.data();
  call.out_layouts = out_layouts_.data();
  if (kernel_->signature().bounded())
    call.out_actual = out_actual_.data() + begin * n_out_ * max_ndim_;
  call.scratch = worker.scratch_table;
  call.scratch_bytes = scratch_bytes_;
  call.worker = index;
  call.device_type = kernel_->descriptor().device_type;
  call.device_id = options_.device_id;
  call.err = worker.error.text;
  call.err_cap = sizeof worker.error.text;
  call.err_where = worker.error.where;
}

void Engine::CallRange(int index, int64_t begin, int64_t end) {
  opabi_call call;
  FillCall(index, begin, end, &call);
  CallRun(call);
}

void Engine::CallRun(const opabi_call &call) {
  Worker &worker = *workers_[call.worker];
  const int64_t begin = call.first_sample, end = begin + call.n_samples;
  Failure failure;
  try {
    const int32_t status = functions_.run(&call);
    if (status == OPABI_OK) return;
    failure = MakeFailure(status, worker.error, begin, end);
  } catch (const ThreadEnd &) {
    AwaitProcessEnd();
  } catch (...) {
    failure = MakeFailure(OPABI_ERROR_INTERNAL, worker.error, begin, end);
    failure.rule = "OPABI-K-004";
    failure.message = "an exception left the kernel. Catch it there and return a status.";
  }
  if (!worker.failure.happened || failure.sample() < worker.failure.sample())
    worker.failure = failure;
}

void Engine::CheckActualShapes() const {
  for (int port = 0; port < n_out_; port++) {
    if (!bounded_[port]) continue;
    for (int64_t s = 0; s < n_samples_; s++) {
      const int64_t *bound = shape(s, port), *actual = actual_shape(s, port);
      for (int32_t d = 0; d < out_info_[port].ndim; d++) {
        const bool open = IsBounded(port, d);
        if (open ? actual[d] >= 0 && actual[d] <= bound[d] : actual[d] == bound[d]) continue;
        throw Error(Kind::kRuntime, "OPABI-K-028",
                    "kernel '" + kernel_->name() + "', " + kernel_->signature().OutputLabel(port) +
                        ", sample " + std::to_string(s) + ", dimension " + std::to_string(d) +
                        ": expected an actual extent " + (open ? "of 0 to " : "of ") +
                        std::to_string(bound[d]) + ", run wrote " +
                        (actual[d] == OPABI_UNSET ? "none" : std::to_string(actual[d])) + ".");
      }
    }
  }
}

}  // namespace opabi
