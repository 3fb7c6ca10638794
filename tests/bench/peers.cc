// SPDX-License-Identifier: Apache-2.0
// The eager peers: one loop, as a plain C function for ctypes and cffi, and as a pybind11 module.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>

namespace py = pybind11;

extern "C" __attribute__((visibility("default"))) void bench_invert(const uint8_t *in, uint8_t *out,
                                                                    int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = static_cast<uint8_t>(255 - in[i]);
}

using Array = py::array_t<uint8_t, py::array::c_style>;

PYBIND11_MODULE(bench_peers, m) {
  m.def("invert", [](const Array &in, Array out) {
    if (in.size() != out.size()) throw py::value_error("sizes differ");
    bench_invert(in.data(), out.mutable_data(), in.size());
  });
}
