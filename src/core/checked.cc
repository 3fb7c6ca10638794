// SPDX-License-Identifier: Apache-2.0
// Checked mode: each sample runs in buffers with guard bytes around them, and what a kernel may not do is
// named with output, sample and offset. Costs copies and, for PURE kernels, a second run.
#include <cstring>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/engine.h"
#include "core/engine_worker.h"
#include "core/error.h"

namespace opabi {
namespace {

constexpr int64_t kGuard = 256;

// A kernel that is not PURE runs once, so that a byte it left alone can only be told by its value. Fewer
// poison bytes in a row than this may be chance.
constexpr int64_t kPoisonRun = 4;

/// The poison at an offset: without a period that data could share. The second round's is its
/// complement, so that the two differ at every byte.
unsigned char Poison(int64_t offset, int round) {
  uint64_t x = static_cast<uint64_t>(offset) * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
  const unsigned char byte = static_cast<unsigned char>(x >> 56);
  return round ? static_cast<unsigned char>(~byte) : byte;
}

/// A buffer between two guards, all of it poisoned.
class Guarded {
 public:
  void Reset(int64_t bytes, int round) {
    bytes_ = bytes;
    round_ = round;
    char *start = memory_.Reserve(bytes + 2 * kGuard);
    for (int64_t i = 0; i < bytes + 2 * kGuard; i++) start[i] = static_cast<char>(Poison(i, round));
    data_ = start + kGuard;
  }
  char *data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  bool poisoned(int64_t at) const {
    return static_cast<unsigned char>(data_[at]) == Poison(at + kGuard, round_);
  }

  /// The offset of the first guard byte that was written, relative to the data; false if none was.
  bool Broken(int64_t *offset) const {
    for (int64_t i = 0; i < kGuard; i++) {
      if (!poisoned(bytes_ + i)) return *offset = bytes_ + i, true;
      if (!poisoned(-1 - i)) return *offset = -1 - i, true;
    }
    return false;
  }

 private:
  Scratch memory_;
  char *data_ = nullptr;
  int64_t bytes_ = 0;
  int round_ = 0;
};

int64_t Bytes(const opabi_tensor &tensor) { return opabi_numel(&tensor) * DtypeSize(tensor.dtype); }

bool IsContiguous(const opabi_tensor &tensor) {
  int64_t stride = 1;
  for (int32_t d = tensor.ndim - 1; d >= 0; d--) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

/// Copies of read-only tensors, to compare after the call.
class Snapshot {
 public:
  Snapshot(const Table &table, int64_t begin, int64_t end)
      : table_(table), begin_(begin), end_(end) {
    Each([&](const opabi_tensor &tensor, int, int64_t) {
      const char *data = static_cast<const char *>(tensor.data);
      bytes_.insert(bytes_.end(), data, data + Bytes(tensor));
    });
  }

  /// Calls found(port, sample, offset) for each tensor that has changed.
  template <typename Found>
  void Compare(const Found &found) const {
    const char *before = bytes_.data();
    Each([&](const opabi_tensor &tensor, int port, int64_t sample) {
      const char *now = static_cast<const char *>(tensor.data);
      const int64_t bytes = Bytes(tensor);
      for (int64_t i = 0; i < bytes; i++) {
        if (now[i] != before[i]) {
          found(port, sample, i);
          break;
        }
      }
      before += bytes;
    });
  }

 private:
  template <typename F>
  void Each(const F &f) const {
    for (int64_t s = begin_; s < end_; s++) {
      for (int port = 0; port < table_.n_ports(); port++) {
        const opabi_tensor &tensor = table_.at(s, port);
        if (Bytes(tensor) && IsContiguous(tensor)) f(tensor, port, s);
      }
    }
  }
  const Table &table_;
  int64_t begin_, end_;
  std::vector<char> bytes_;
};

}  // namespace

/// One range of samples, in guarded buffers.
class CheckedCall {
 public:
  CheckedCall(Engine &engine, int64_t begin, int64_t end)
      : engine_(engine), begin_(begin), end_(end) {
    for (int64_t s = begin; s < end; s++) {
      for (int port = 0; port < engine.n_out_; port++)
        hosts_.push_back(engine.outputs_.at(s, port).data);
    }
    guarded_.resize(hosts_.size());
  }

  void Run() {
    const bool twice = engine_.kernel_->has(OPABI_PURE) && !engine_.kernel_->has_instance();
    RunOnce(0);
    if (!Failed()) Keep();
    if (!Failed() && twice) {
      RunOnce(1);
      if (!Failed()) CompareRounds();
    } else if (!Failed()) {
      FindPoison();
    }
    Each([&](opabi_tensor &tensor, size_t i, int, int64_t) { tensor.data = hosts_[i]; });
    if (Failed()) return;
    Each([&](opabi_tensor &tensor, size_t i, int port, int64_t s) {
      if (const int64_t bytes = Written(port, s)) std::memcpy(tensor.data, first_[i].data(), bytes);
    });
  }

 private:
  template <typename F>
  void Each(const F &f) {
    size_t i = 0;
    for (int64_t s = begin_; s < end_; s++) {
      for (int port = 0; port < engine_.n_out_; port++)
        f(engine_.outputs_.at(s, port), i++, port, s);
    }
  }

  bool Failed() const { return engine_.workers_[0]->failure.happened; }

  /// The bytes of an output that the kernel must have written.
  int64_t Written(int port, int64_t sample) const {
    opabi_tensor tensor = engine_.outputs_.at(sample, port);
    if (engine_.bounded_[port]) {
      tensor.shape = engine_.actual_shape(sample, port);
      for (int32_t d = 0; d < tensor.ndim; d++) {
        if (tensor.shape[d] < 0 || tensor.shape[d] > engine_.shape(sample, port)[d])
          return 0;  // reported later
      }
    }
    return Bytes(tensor);
  }

  void RunOnce(int round) {
    Each([&](opabi_tensor &tensor, size_t i, int, int64_t) {
      guarded_[i].Reset(Bytes(tensor), round);
      tensor.data = guarded_[i].data();
    });
    if (engine_.kernel_->signature().bounded()) {
      for (int64_t s = begin_; s < end_; s++) engine_.ResetActual(s);
    }
    Engine::Worker &worker = *engine_.workers_[0];
    const int64_t scratch_bytes = engine_.scratch_bytes_[OPABI_SCRATCH_HOST];
    if (scratch_bytes) {
      scratch_.Reset(scratch_bytes, round);
      worker.scratch_table[OPABI_SCRATCH_HOST] = scratch_.data();
    }
    const Snapshot inputs(engine_.inputs_, begin_, end_),
        arguments(engine_.arguments_.table(), begin_, end_);
    engine_.CallRange(0, begin_, end_);
    int64_t offset;
    Each([&](opabi_tensor &, size_t i, int port, int64_t s) {
      if (guarded_[i].Broken(&offset)) {
        Report("OPABI-K-022", engine_.kernel_->signature().OutputLabel(port), s,
               "written " + Past(offset, guarded_[i].bytes()));
      }
    });
    if (scratch_bytes && scratch_.Broken(&offset)) {
      Report("OPABI-K-027", "host scratch", begin_, "written " + Past(offset, scratch_bytes));
    }
    inputs.Compare([&](int port, int64_t s, int64_t at) {
      Report("OPABI-K-021", engine_.kernel_->signature().InputLabel(port), s,
             "changed at byte offset " + std::to_string(at));
    });
    arguments.Compare([&](int arg, int64_t s, int64_t at) {
      Report("OPABI-K-021",
             std::string("argument '") + engine_.kernel_->descriptor().args[arg].name + "'", s,
             "changed at byte offset " + std::to_string(at));
    });
  }

  static std::string Past(int64_t offset, int64_t bytes) {
    return offset < 0 ? std::to_string(-offset) + " bytes before its start"
                      : "past its end, at byte offset " + std::to_string(offset) + " of " +
                            std::to_string(bytes);
  }

  void Keep() {
    first_.resize(guarded_.size());
    for (size_t i = 0; i < guarded_.size(); i++)
      first_[i].assign(guarded_[i].data(), guarded_[i].data() + guarded_[i].bytes());
  }

  void CompareRounds() {
    Each([&](opabi_tensor &, size_t i, int port, int64_t s) {
      for (int64_t at = 0, bytes = Written(port, s); at < bytes; at++) {
        if (guarded_[i].data()[at] == first_[i][at]) continue;
        const std::string label = engine_.kernel_->signature().OutputLabel(port),
                          where = std::to_string(at);
        if (guarded_[i].poisoned(at))
          return Report("OPABI-K-020", label, s, "not written at byte offset " + where);
        return Report("OPABI-K-029", label, s,
                      "differs between two runs on equal inputs, at byte offset " + where +
                          ", though the kernel declares OPABI_PURE");
      }
    });
  }

  void FindPoison() {
    Each([&](opabi_tensor &, size_t i, int port, int64_t s) {
      int64_t run = 0;
      for (int64_t at = 0, bytes = Written(port, s); at < bytes; at++) {
        run = guarded_[i].poisoned(at) ? run + 1 : 0;
        if (run < kPoisonRun) continue;
        return Report("OPABI-K-020", engine_.kernel_->signature().OutputLabel(port), s,
                      "not written at byte offset " + std::to_string(at - run + 1));
      }
    });
  }

  void Report(const char *rule, const std::string &label, int64_t sample, const std::string &what) {
    Failure &failure = engine_.workers_[0]->failure;
    if (failure.happened && !failure.rule.empty()) return;
    failure.happened = true;
    failure.status = OPABI_ERROR_INTERNAL;
    failure.begin = sample;
    failure.end = sample + 1;
    failure.rule = rule;
    failure.message = "checked mode: " + label + " was " + what + ".";
  }

  Engine &engine_;
  int64_t begin_, end_;
  std::vector<void *> hosts_;
  std::vector<Guarded> guarded_;
  std::vector<std::vector<char>> first_;
  Guarded scratch_;
};

void Engine::RunChecked() {
  PrepareWorkers(1);
  const int64_t step = kernel_->demands(OPABI_WHOLE_BATCH) ? n_samples_ : 1;
  Failure first;
  for (int64_t at = 0; at < n_samples_; at += step) {
    workers_[0]->failure = Failure();
    CheckedCall(*this, at, at + step).Run();
    if (workers_[0]->failure.happened && !first.happened) first = workers_[0]->failure;
  }
  workers_[0]->failure = first;
}

}  // namespace opabi
