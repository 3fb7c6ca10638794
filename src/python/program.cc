// SPDX-License-Identifier: Apache-2.0
#include "python/program.h"

#include <pybind11/stl.h>

#include <memory>
#include <tuple>
#include <vector>

#include "cuda/launch.h"

namespace py = pybind11;

namespace opabi {
namespace {

using cuda::Axis;
using cuda::Param;
using cuda::Program;

struct __attribute__((visibility("hidden"))) PyProgram {
  Program program;
  py::object keep;
};

template <typename T>
T Field(const py::dict &fields, const char *name) {
  return fields[name].cast<T>();
}

std::unique_ptr<PyProgram> MakeProgram(const py::dict &fields) {
  auto made = std::make_unique<PyProgram>();
  Program &program = made->program;
  program.name = Field<std::string>(fields, "name");
  program.function = reinterpret_cast<void *>(Field<uintptr_t>(fields, "function"));
  program.device_id = Field<int32_t>(fields, "device_id");
  for (const auto &[kind, port, dim, size, value] :
       Field<std::vector<std::tuple<int32_t, int32_t, int32_t, int32_t, uint64_t>>>(fields,
                                                                                    "params")) {
    program.params.push_back({kind, port, dim, size, value});
  }
  for (const auto &[factors, per_block] :
       Field<std::vector<std::pair<std::vector<std::pair<int32_t, int32_t>>, int32_t>>>(fields,
                                                                                        "axes")) {
    Axis axis;
    axis.per_block = per_block;
    for (const auto &[port, dim] : factors) axis.factors.push_back({port, dim});
    program.axes.push_back(axis);
  }
  const auto block = Field<std::vector<unsigned>>(fields, "block");
  std::copy_n(block.begin(), std::min<size_t>(block.size(), 3), program.block);
  program.shared_bytes = Field<unsigned>(fields, "shared_bytes");
  program.per_sample = Field<bool>(fields, "per_sample");
  program.by_total = Field<bool>(fields, "by_total");
  program.batch_words = Field<int64_t>(fields, "batch_words");
  program.setup = reinterpret_cast<opabi_setup_fn>(Field<uintptr_t>(fields, "setup"));
  program.setup_data = reinterpret_cast<void *>(Field<uintptr_t>(fields, "setup_data"));
  made->keep = fields["keep"];
  Prepare(&program);
  return made;
}

}  // namespace

void AddCudaProgram(py::module_ &module) {
  module.def("load_cuda_function",
             [](int32_t device_id, const std::string &image, const std::string &name) {
               return reinterpret_cast<uintptr_t>(cuda::LoadFunction(device_id, image, name));
             });
  py::class_<PyProgram>(module, "CudaProgram")
      .def(py::init(&MakeProgram))
      .def_property_readonly(
          "run", [](const PyProgram &) { return reinterpret_cast<uintptr_t>(&cuda::LaunchRun); })
      .def_property_readonly(
          "setup",
          [](const PyProgram &) { return reinterpret_cast<uintptr_t>(&cuda::LaunchSetup); })
      .def_property_readonly(
          "user_data", [](PyProgram &self) { return reinterpret_cast<uintptr_t>(&self.program); });
}

}  // namespace opabi
