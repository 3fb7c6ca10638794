// SPDX-License-Identifier: Apache-2.0
// Calls with arrays: the engine's second host, beside the DALI operator.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "core/engine.h"
#include "core/pool.h"
#include "python/buffers.h"
#include "python/descriptor.h"

namespace opabi {

struct EagerOptions {
  bool checked = false;
  int num_threads = 1;
  int32_t device_id = 0;  // of CUDA kernels
  bool operator==(const EagerOptions &other) const {
    return checked == other.checked && num_threads == other.num_threads &&
           device_id == other.device_id;
  }
};

/// What Python says about a call on the GPU.
struct __attribute__((visibility("hidden"))) EagerStream {
  void *stream = nullptr;      // NULL: the call is one on the CPU
  pybind11::object new_array;  // new_array(dtype, shape) makes an array on the device
  PyTypeObject *own =
      nullptr;  // of arrays that are ready on the stream, which is their library's current one
};

/// An engine and the buffers of its calls, used by one call at a time.
struct __attribute__((visibility("hidden"))) EagerEngine {
  EagerEngine(std::shared_ptr<Kernel> kernel, const EagerOptions &options);

  EagerOptions options;
  Engine engine;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<Device> device;                // of CUDA kernels
  std::vector<std::unique_ptr<Buffer>> buffers;  // reused from call to call
  size_t n_buffers = 0;                          // in use
  Buffer &NextBuffer();
  void ResetBuffers();
};

/// A kernel as Python holds it.
class __attribute__((visibility("hidden"))) PyKernel {
 public:
  explicit PyKernel(std::shared_ptr<Kernel> kernel, std::weak_ptr<OwnedDescriptor> descriptor = {})
      : kernel_(std::move(kernel)), descriptor_(std::move(descriptor)) {}
  PyKernel(const PyKernel &) = delete;
  PyKernel &operator=(const PyKernel &) = delete;

  const std::shared_ptr<Kernel> &kernel() const { return kernel_; }

  /// Arrays in, arrays out: see Kernel.__call__ in python/opabi/kernel.py. `out` and `arguments` may be None.
  pybind11::object Call(pybind11::tuple inputs, pybind11::handle arguments, pybind11::handle out,
                        const EagerOptions &options, const EagerStream &stream = {});

  /// The Python exception behind the last failed specialization, or none.
  pybind11::object TakeError();

 private:
  std::unique_ptr<EagerEngine> Acquire(const EagerOptions &options);
  std::shared_ptr<Kernel> kernel_;
  std::weak_ptr<OwnedDescriptor> descriptor_;
  std::vector<std::unique_ptr<EagerEngine>> idle_;  // guarded by Python's lock
};

}  // namespace opabi
