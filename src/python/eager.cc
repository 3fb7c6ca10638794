// SPDX-License-Identifier: Apache-2.0
#include "python/eager.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/ended_thread.h"
#include "core/error.h"
#include "cuda/lane.h"
#include "python/text.h"

namespace py = pybind11;

namespace opabi {
namespace {

/// Gives Python's lock away as long as it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const ThreadEnd &) {
      AwaitProcessEnd();
    }
  }
  Unlocked(const Unlocked &) = delete;
  Unlocked &operator=(const Unlocked &) = delete;

 private:
  PyThreadState *state_;
};

/// One call: reads the objects, runs the engine, gives back arrays.
class EagerCall {
 public:
  EagerCall(EagerEngine &eager, py::tuple inputs, const EagerStream &stream)
      : eager_(eager),
        engine_(eager.engine),
        inputs_(std::move(inputs)),
        stream_(stream),
        results_(engine_.n_out()) {}
  ~EagerCall() { eager_.ResetBuffers(); }

  py::object Run(py::handle arguments, py::handle out) {
    CountSamples();
    if (n_samples_ == 0) {
      for (int port = 0; port < engine_.n_out(); port++) results_[port] = py::list();
      return Result();
    }
    engine_.Begin(n_samples_);
    for (int port = 0; port < engine_.n_in(); port++) ReadInput(port);
    if (arguments && !arguments.is_none())
      ReadArguments(py::reinterpret_borrow<py::dict>(arguments));
    if (engine_.SetupCallsKernel()) {
      Unlocked unlocked;
      engine_.Setup(Context());
    } else {  // in less time than it takes to give the lock back
      engine_.Setup(Context());
    }
    PrepareOutputs(out);
    {
      Unlocked unlocked;
      engine_.Run(Context());
    }
    CopyBounded();
    return Result();
  }

 private:
  /// The stream that DLPack shall make an array ready on: none where it is so already.
  intptr_t ReadyOn(py::handle object) const {
    return Py_TYPE(object.ptr()) == stream_.own ? -1 : reinterpret_cast<intptr_t>(stream_.stream);
  }
  RunContext Context() const { return {eager_.pool.get(), eager_.device.get(), stream_.stream}; }
  const Kernel &kernel() const { return engine_.kernel(); }
  ValuePlace At(ValuePlace::Kind kind, int index, int64_t sample) const {
    return {kind, &kernel(), index, batch_ ? sample : -1};
  }

  void CountSamples() {
    const int n = static_cast<int>(inputs_.size());
    kernel().CheckInputCount(n);
    for (int port = 0; port < n; port++) {
      if (!PyList_Check(inputs_[port].ptr())) continue;
      const int64_t size = PyList_GET_SIZE(inputs_[port].ptr());
      if (batch_ && size != n_samples_) {
        throw Error(Kind::kValue, "",
                    At(ValuePlace::kInput, port, -1).str() + ": expected a list of " +
                        std::to_string(n_samples_) + " samples, as the inputs before it, found " +
                        std::to_string(size) + ".");
      }
      batch_ = true;
      n_samples_ = size;
    }
  }

  void ReadInput(int port) {
    const bool any_strides = kernel().has(OPABI_ANY_STRIDES);
    const py::handle object = PyTuple_GET_ITEM(inputs_.ptr(), port);
    const bool list = PyList_Check(object.ptr());
    const Buffer *buffer = nullptr;
    PortInfo first;
    for (int64_t s = 0; s < n_samples_; s++) {
      const ValuePlace place = At(ValuePlace::kInput, port, s);
      if (list || s == 0) {
        Buffer &next = eager_.NextBuffer();
        if (stream_.stream) {
          const py::object item = Item(object, list, s, place);
          next.ReadDevice(item, place, any_strides, ReadyOn(item));
        } else {
          next.Read(Item(object, list, s, place), place, any_strides);
        }
        buffer = &next;
        CheckUniform(place, next.info(), s, &first);
        if (s == 0) engine_.DescribeInput(port, first);
      }
      engine_.SetInput(s, port, buffer->data(), buffer->shape(), buffer->strides());
    }
  }

  /// A list may shrink while Python code of its items runs.
  static py::object Item(py::handle object, bool list, int64_t s, const ValuePlace &place) {
    if (!list) return py::reinterpret_borrow<py::object>(object);
    if (s >= PyList_GET_SIZE(object.ptr()))
      throw Error(Kind::kValue, "", place.str() + ": the list shrank during the call.");
    return py::reinterpret_borrow<py::object>(PyList_GET_ITEM(object.ptr(), s));
  }

  static void CheckUniform(const ValuePlace &place, const PortInfo &info, int64_t s,
                           PortInfo *first) {
    if (s == 0) *first = info;
    if (info.dtype == first->dtype && info.ndim == first->ndim) return;
    throw Error(Kind::kType, "OPABI-H-024",
                place.str() + ": expected " + DtypeName(first->dtype) + " of rank " +
                    std::to_string(first->ndim) + ", as in sample 0, found " +
                    DtypeName(info.dtype) + " of rank " + std::to_string(info.ndim) +
                    ". The samples of a batch have one dtype and rank.");
  }

  void ReadArguments(const py::dict &arguments) {
    for (const auto &item : arguments) {
      if (PyUnicode_CompareWithASCIIString(item.first.ptr(), "out") == 0) continue;
      const int arg = engine_.FindArgument(Shown(item.first));
      const bool list = batch_ && PyList_Check(item.second.ptr());
      if (list && PyList_GET_SIZE(item.second.ptr()) != n_samples_) {
        throw Error(Kind::kValue, "OPABI-H-013",
                    At(ValuePlace::kArgument, arg, -1).str() + ": expected a list of " +
                        std::to_string(n_samples_) + " values, one for each sample, found " +
                        std::to_string(PyList_GET_SIZE(item.second.ptr())) +
                        ". For one value that is a list, pass a NumPy array.");
      }
      ReadArgument(arg, item.second, list);
    }
  }

  void ReadArgument(int arg, py::handle object, bool list) {
    PortInfo first;
    std::vector<const Buffer *> read;
    Origin origin = Origin::kNumber;
    for (int64_t s = 0; s < (list ? n_samples_ : 1); s++) {
      const ValuePlace place = At(ValuePlace::kArgument, arg, list ? s : -1);
      Buffer &next = eager_.NextBuffer();
      next.ReadValue(Item(object, list, s, place), place);
      CheckUniform(place, next.info(), s, &first);
      origin = std::max(origin, next.origin());
      read.push_back(&next);
    }
    engine_.DescribeArgument(arg, first, origin);
    for (int64_t s = 0; s < n_samples_; s++) {
      const Buffer &buffer = *read[list ? s : 0];
      engine_.SetArgument(s, arg, buffer.data(), buffer.shape());
    }
  }

  void PrepareOutputs(py::handle out) {
    const bool given = out && !out.is_none();
    if (given) CheckOut(out);
    for (int port = 0; port < engine_.n_out(); port++) {
      if (engine_.bounded(port)) {
        if (given) {
          throw Error(Kind::kValue, "",
                      At(ValuePlace::kOutput, port, -1).str() +
                          ": out= cannot be used where the kernel decides the size ('<=').");
        }
        results_[port] = py::none();
        continue;
      }
      const py::object target = given ? OutOf(out, port) : batch_ ? py::list() : py::object();
      for (int64_t s = 0; s < n_samples_; s++) {
        const py::object array =
            given ? Item(target, batch_, s, At(ValuePlace::kOutput, port, s)) : MakeArray(port, s);
        Buffer &buffer = eager_.NextBuffer();
        if (stream_.stream) {
          buffer.WriteDevice(array, At(ValuePlace::kOutput, port, s), engine_.output(port),
                             engine_.shape(s, port), ReadyOn(array));
        } else {
          buffer.Write(array, At(ValuePlace::kOutput, port, s), engine_.output(port),
                       engine_.shape(s, port));
        }
        if (given) CheckApart(buffer, port, s);
        engine_.SetOutput(s, port, buffer.data());
        if (batch_ && !given) target.cast<py::list>().append(array);
        if (!batch_) results_[port] = array;
      }
      if (batch_) results_[port] = target;
    }
  }

  py::object MakeArray(int port, int64_t sample) const {
    const PortInfo &info = engine_.output(port);
    const int64_t *shape = engine_.shape(sample, port);
    if (!stream_.stream) return NewArray(info, shape);
    py::tuple extents(info.ndim);
    for (int d = 0; d < info.ndim; d++) extents[d] = shape[d];
    return stream_.new_array(DtypeName(info.dtype), extents);
  }

  py::object OutOf(py::handle out, int port) const {
    if (engine_.n_out() == 1) return py::reinterpret_borrow<py::object>(out);
    return py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(out.ptr(), port));
  }

  void CheckOut(py::handle out) const {
    const int n = engine_.n_out();
    const auto fail = [&](const std::string &expected) {
      throw Error(Kind::kType, "",
                  "kernel '" + kernel().name() + "': expected out= to be " + expected + ", found " +
                      Py_TYPE(out.ptr())->tp_name + ".");
    };
    if (n == 0) fail("left out: the kernel has no output");
    if (n > 1 && !(PyTuple_Check(out.ptr()) && PyTuple_GET_SIZE(out.ptr()) == n)) {
      fail("a tuple of " + std::to_string(n) + ", one for each output");
    }
    for (int port = 0; port < n && batch_; port++) {
      const py::object list = OutOf(out, port);
      if (!PyList_Check(list.ptr()) || PyList_GET_SIZE(list.ptr()) != n_samples_) {
        fail("lists of " + std::to_string(n_samples_) + " arrays, one for each sample");
      }
    }
  }

  /// Refuses memory that an input, or an output before this one, has (OPABI-H-006).
  void CheckApart(const Buffer &buffer, int port, int64_t sample) const {
    const char *begin = static_cast<const char *>(buffer.data()), *end = begin + buffer.bytes();
    for (size_t i = 0; i < eager_.n_buffers; i++) {
      const Buffer &other = *eager_.buffers[i];
      if (&other == &buffer || !other.Overlaps(begin, end)) continue;
      throw Error(
          Kind::kValue, "OPABI-H-006",
          At(ValuePlace::kOutput, port, sample).str() +
              ": out= shares memory with an input, an argument or another output. Pass an array of its own.");
    }
  }

  void CopyBounded() {
    for (int port = 0; port < engine_.n_out(); port++) {
      if (!engine_.bounded(port)) continue;
      py::list list;
      for (int64_t s = 0; s < n_samples_; s++) {
        const int64_t *shape = engine_.actual_shape(s, port);
        const py::object array = NewArray(engine_.output(port), shape);
        Buffer &buffer = eager_.NextBuffer();
        buffer.Write(array, At(ValuePlace::kOutput, port, s), engine_.output(port), shape);
        if (buffer.bytes())
          std::copy_n(static_cast<const char *>(engine_.data(s, port)), buffer.bytes(),
                      static_cast<char *>(buffer.data()));
        if (batch_) list.append(array);
        if (!batch_) results_[port] = array;
      }
      if (batch_) results_[port] = list;
    }
  }

  py::object Result() const {
    if (results_.empty()) return py::none();
    if (results_.size() == 1) return results_[0];
    return results_;
  }

  EagerEngine &eager_;
  Engine &engine_;
  py::tuple inputs_;
  const EagerStream &stream_;
  bool batch_ = false;
  int64_t n_samples_ = 1;
  py::tuple results_;
};

}  // namespace

EagerEngine::EagerEngine(std::shared_ptr<Kernel> kernel, const EagerOptions &options)
    : options(options),
      engine(std::move(kernel), {options.checked, 0, options.num_threads, options.device_id}) {
  if (engine.kernel().descriptor().device_type == OPABI_CUDA)
    device = std::make_unique<cuda::Lane>(options.device_id);
  if (options.num_threads > 1) {
    pool = std::make_unique<ThreadPool>(options.num_threads);
  } else {
    pool = std::make_unique<InlinePool>();
  }
}

Buffer &EagerEngine::NextBuffer() {
  if (n_buffers == buffers.size()) buffers.push_back(std::make_unique<Buffer>());
  return *buffers[n_buffers++];
}

void EagerEngine::ResetBuffers() {
  while (n_buffers) buffers[--n_buffers]->Reset();
}

std::unique_ptr<EagerEngine> PyKernel::Acquire(const EagerOptions &options) {
  for (size_t i = idle_.size(); i-- > 0;) {
    if (!(idle_[i]->options == options)) continue;
    std::unique_ptr<EagerEngine> engine = std::move(idle_[i]);
    idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
    return engine;
  }
  return std::make_unique<EagerEngine>(kernel_, options);
}

py::object PyKernel::Call(py::tuple inputs, py::handle arguments, py::handle out,
                          const EagerOptions &options, const EagerStream &stream) {
  std::unique_ptr<EagerEngine> eager = Acquire(options);
  // The engine goes back whatever happens: after a failure the next Begin starts afresh.
  struct Return {
    PyKernel *kernel;
    std::unique_ptr<EagerEngine> *engine;
    ~Return() { kernel->idle_.push_back(std::move(*engine)); }
  } back{this, &eager};
  return EagerCall(*eager, std::move(inputs), stream).Run(arguments, out);
}

py::object PyKernel::TakeError() {
  const std::shared_ptr<OwnedDescriptor> descriptor = descriptor_.lock();
  return descriptor ? descriptor->TakeError() : py::object();
}

}  // namespace opabi
