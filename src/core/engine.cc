// SPDX-License-Identifier: Apache-2.0
// The engine's first half: from described inputs to checked output types and shapes.
#include "core/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/dtype.h"
#include "core/engine_worker.h"
#include "core/error.h"
#include "core/setup_call.h"

namespace opabi {
namespace {

std::string ShapeText(const int64_t *shape, int32_t ndim) {
  std::string text = "(";
  for (int32_t d = 0; d < ndim; d++) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + (ndim == 1 ? ",)" : ")");
}

/// More than this cannot be meant: the machine's memory.
int64_t MemoryLimit() {
  static const int64_t limit = [] {
    const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? pages * size : int64_t{1} << 40;
  }();
  return limit;
}

/// The extents in `shape` times `bytes`, or -1 on overflow.
int64_t CheckedBytes(const int64_t *shape, int32_t ndim, int64_t bytes) {
  bool overflow = false;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 0) return 0;
    overflow |= __builtin_mul_overflow(bytes, shape[d], &bytes);
  }
  return overflow ? -1 : bytes;
}

/// Errors of the signature know ports and samples, but not whose they are.
template <typename F>
void NamingKernel(const Kernel &kernel, const F &f) {
  try {
    f();
  } catch (const Error &error) {
    throw error.In("kernel '" + kernel.name() + "', ");
  }
}

}  // namespace

Engine::Engine(std::shared_ptr<Kernel> kernel, const EngineOptions &options)
    : kernel_(std::move(kernel)),
      options_(options),
      n_in_(static_cast<int>(kernel_->signature().inputs().size())),
      n_out_(static_cast<int>(kernel_->signature().outputs().size())),
      n_args_(kernel_->descriptor().n_args),
      in_info_(n_in_),
      out_info_(n_out_),
      in_layouts_(n_in_),
      out_layouts_(n_out_),
      arguments_(*kernel_),
      bounded_(n_out_),
      bounded_data_(n_out_) {
  const opabi_kernel &d = kernel_->descriptor();
  functions_ = {d.run, d.setup, d.user_data};
  for (int port = 0; port < n_out_; port++)
    bounded_[port] = kernel_->signature().outputs()[port].bounded();
  if (d.device_type != OPABI_CPU) CheckDevice();
  Create();
}

Engine::~Engine() {
  if (kernel_->has_instance())
    kernel_->descriptor().destroy(kernel_->descriptor().user_data, instance_);
}

void Engine::Create() {
  const opabi_kernel &d = kernel_->descriptor();
  if (!d.create) return;
  ErrorBuffer error;
  error.Reset();
  opabi_create create{};
  create.struct_size = sizeof create;
  create.abi = OPABI_VERSION(OPABI_MAJOR, OPABI_MINOR);
  create.user_data = d.user_data;
  create.device_type = d.device_type;
  create.device_id = options_.device_id;
  create.max_batch = options_.max_batch;
  create.n_workers = options_.n_workers;
  create.out_instance = &instance_;
  create.err = error.text;
  create.err_cap = sizeof error.text;
  create.err_where = error.where;
  const int32_t status = d.create(&create);
  if (status != OPABI_OK) ThrowFailure(*kernel_, "create", MakeFailure(status, error, 0, 0));
}

void Engine::Begin(int64_t n_samples) {
  n_samples_ = n_samples;
  inputs_.Resize(n_samples, n_in_);
  arguments_.Begin(n_samples);
}

void Engine::Setup(const RunContext &context) {
  CheckInputs();
  arguments_.Fill();
  BindTypes();
  inputs_.FillStrides();
  for (int port = 0; port < n_out_; port++) {
    out_info_[port].dtype = types_.out_dtype[port];
    out_info_[port].ndim = types_.out_ndim[port];
    out_info_[port].device_type = kernel_->descriptor().device_type;
    out_info_[port].device_id = options_.device_id;
  }
  uniform_ = IsUniform();
  NamingKernel(*kernel_, [this] { InferShapes(); });
  if (n_samples_ == 0) return;  // OPABI-H-012
  if (context.device && kernel_->demands(OPABI_SETUP_READS_DATA))
    context.device->Synchronize(context.stream);
  CallSetup();
  CheckOutputs();
  outputs_.Resize(n_samples_, n_out_);
}

void Engine::CheckInputs() {
  const bool host_only = kernel_->descriptor().device_type == OPABI_CPU;
  for (int port = 0; port < n_in_; port++) {
    PortInfo &info = in_info_[port];
    const Port &declared = kernel_->signature().inputs()[port];
    const auto label = [&] {
      return "kernel '" + kernel_->name() + "', " + kernel_->signature().InputLabel(port) + ": ";
    };
    if (host_only && info.device_type != OPABI_CPU) {
      throw Error(
          Kind::kType, "OPABI-H-002",
          label() +
              "expected a tensor in host memory, found one on the GPU. This kernel works on the CPU: "
              "copy the data to the CPU first.");
    }
    if (info.device_type != OPABI_CPU && info.device_id != options_.device_id) {
      throw Error(Kind::kType, "OPABI-H-002",
                  label() + "expected a tensor on CUDA device " +
                      std::to_string(options_.device_id) + ", found one on " +
                      std::to_string(info.device_id) + ". Copy it there first.");
    }
    if (!IsDtype(info.dtype)) {
      throw Error(
          Kind::kType, "OPABI-H-002",
          label() + "found " + DtypeName(info.dtype) + ", which is no element type of opabi.");
    }
    if (info.ndim < 0 || info.ndim > OPABI_MAX_NDIM) {
      throw Error(Kind::kType, "OPABI-H-002",
                  label() + "expected a rank of 0 to 15, found " + std::to_string(info.ndim) + ".");
    }
    if (!declared.layout.empty()) {
      if (!info.layout.empty() && info.layout != declared.layout) {
        throw Error(Kind::kType, "OPABI-H-014",
                    label() + "expected layout " + declared.layout + ", found " + info.layout +
                        ". Transpose or relabel the data first.");
      }
      info.layout = declared.layout;
    }
    in_layouts_[port] = info.layout.c_str();
  }
}

void Engine::BindTypes() {
  batch_key_.dtypes.clear();
  batch_key_.ndims.clear();
  batch_key_.device_id = options_.device_id;
  for (const PortInfo &info : in_info_) {
    batch_key_.dtypes.push_back(info.dtype);
    batch_key_.ndims.push_back(info.ndim);
  }
  for (int arg = 0; arg < n_args_; arg++) {
    batch_key_.dtypes.push_back(arguments_.dtype(arg));
    batch_key_.ndims.push_back(arguments_.ndim(arg));
  }
  if (bound_ && batch_key_ == key_) return;
  bound_ = false;
  const Signature &signature = kernel_->signature();
  NamingKernel(*kernel_, [&] {
    types_ = signature.BindTypes(batch_key_.dtypes.data(), batch_key_.ndims.data());
  });
  if (kernel_->descriptor().specialize) {
    functions_ = kernel_->Specialize(batch_key_, kernel_->descriptor().device_type);
  }
  max_ndim_ = 1;
  for (int32_t ndim : types_.out_ndim)
    max_ndim_ = std::max(max_ndim_, ndim == OPABI_UNSET ? OPABI_MAX_NDIM : ndim);
  key_ = batch_key_;
  bound_ = true;
}

bool Engine::IsUniform() const {
  if (kernel_->signature().uses_arguments()) return false;
  for (int port = 0; port < n_in_; port++) {
    if (!inputs_.HasOneShape(port)) return false;
  }
  return true;
}

void Engine::InferShapes() {
  const size_t row = static_cast<size_t>(n_out_) * max_ndim_;
  out_shape_.resize(std::max<size_t>(row * n_samples_, 1));
  int64_t *out = out_shape_.data();
  for (int64_t s = 0; s < n_samples_; s++, out += row) {
    if (uniform_ && s > 0) {
      for (size_t i = 0; i < row; i++) out[i] = out_shape_[i];
    } else {
      kernel_->signature().InferShapes(types_, inputs_.row(s), arguments_.table().row(s), s,
                                       max_ndim_, out);
    }
  }
}

void Engine::CallSetup() {
  const Signature &signature = kernel_->signature();
  char layouts[OPABI_MAX_PORTS][OPABI_LAYOUT_SIZE];
  for (int port = 0; port < n_out_; port++) {
    const std::string *layout = &signature.outputs()[port].layout;
    for (int in = 0; in < n_in_ && layout->empty(); in++) {
      if (in_info_[in].ndim == out_info_[port].ndim) layout = &in_info_[in].layout;
    }
    std::memset(layouts[port], 0, OPABI_LAYOUT_SIZE);
    std::memcpy(layouts[port], layout->c_str(),
                std::min<size_t>(layout->size(), OPABI_LAYOUT_SIZE - 1));
  }
  std::fill(scratch_bytes_, scratch_bytes_ + 3, 0);
  if (functions_.setup) {
    out_dtype_ = types_.out_dtype;
    out_ndim_ = types_.out_ndim;
    CallSetupFunction(*kernel_, functions_, instance_, n_samples_,
                      {&inputs_, &arguments_.table(), in_layouts_.data(), max_ndim_, &out_dtype_,
                       &out_ndim_, &out_shape_, layouts[0], scratch_bytes_});
    for (int port = 0; port < n_out_; port++) {
      out_info_[port].dtype = out_dtype_[port];
      out_info_[port].ndim = out_ndim_[port];
    }
  }
  for (int port = 0; port < n_out_; port++) {
    layouts[port][OPABI_LAYOUT_SIZE - 1] = 0;
    out_info_[port].layout = layouts[port];
    out_layouts_[port] = out_info_[port].layout.c_str();
  }
}

void Engine::CheckOutputs() {
  // What the signature gives one sample of a uniform batch it gives all.
  const int64_t alike = uniform_ && !functions_.setup ? n_samples_ : 1;
  int64_t &total = output_bytes_ = 0;
  for (int port = 0; port < n_out_; port++) {
    const PortInfo &info = out_info_[port];
    const auto fail = [&](Kind kind, const char *rule, const std::string &text) {
      throw Error(
          kind, rule,
          "kernel '" + kernel_->name() + "', " + kernel_->signature().OutputLabel(port) + text);
    };
    if (info.dtype == OPABI_DTYPE_UNSET)
      fail(Kind::kRuntime, "OPABI-K-011", ": setup did not set the dtype.");
    if (!IsDtype(info.dtype)) {
      fail(Kind::kRuntime, "OPABI-K-011",
           ": setup set " + DtypeName(info.dtype) + ", which is no element type of opabi.");
    }
    if (info.ndim == OPABI_UNSET)
      fail(Kind::kRuntime, "OPABI-K-011", ": setup did not set the rank.");
    if (info.ndim < 0 || info.ndim > OPABI_MAX_NDIM) {
      fail(Kind::kRuntime, "OPABI-K-011",
           ": expected a rank of 0 to 15, setup set " + std::to_string(info.ndim) + ".");
    }
    if (!info.layout.empty() && static_cast<int32_t>(info.layout.size()) != info.ndim) {
      fail(Kind::kRuntime, "OPABI-K-013",
           ": layout '" + info.layout + "' does not fit rank " + std::to_string(info.ndim) + ".");
    }
    for (int64_t s = 0; s < n_samples_; s += alike) {
      const int64_t *extents = shape(s, port);
      for (int32_t d = 0; d < info.ndim; d++) {
        if (extents[d] >= 0) continue;
        const std::string where =
            ", sample " + std::to_string(s) + ", dimension " + std::to_string(d);
        if (extents[d] == OPABI_UNSET)
          fail(Kind::kRuntime, "OPABI-K-011", where + ": setup did not set the extent.");
        fail(
            Kind::kValue, "OPABI-K-011",
            where + ": expected an extent of 0 or more, found " + std::to_string(extents[d]) + ".");
      }
      const int64_t bytes = CheckedBytes(extents, info.ndim, DtypeSize(info.dtype) * alike);
      if (bytes < 0 || __builtin_add_overflow(total, bytes, &total) || total > MemoryLimit()) {
        fail(Kind::kMemory, "OPABI-H-005",
             ", sample " + std::to_string(s) + ": the shape " + ShapeText(extents, info.ndim) +
                 " of " + DtypeName(info.dtype) +
                 " needs more than this machine's memory. Nothing was allocated.");
      }
    }
  }
}

}  // namespace opabi
