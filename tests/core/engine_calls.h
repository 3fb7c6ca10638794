// SPDX-License-Identifier: Apache-2.0
// A small host for tests: vectors in, vectors out, through the engine.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "core/dtype.h"
#include "core/engine.h"
#include "descriptors.h"

namespace opabi {

using Shape = std::vector<int64_t>;

struct Sample {
  Shape shape;
  std::vector<char> bytes;
};

template <typename T>
Sample MakeSample(const Shape &shape, const std::vector<T> &values) {
  Sample sample{shape, std::vector<char>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(sample.bytes.data(), values.data(), sample.bytes.size());
  return sample;
}

template <typename T>
std::vector<T> Values(const Sample &sample) {
  std::vector<T> values(sample.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), sample.bytes.data(), sample.bytes.size());
  return values;
}

inline std::shared_ptr<Kernel> Adopted(const opabi_kernel &descriptor) {
  return Kernel::Adopt(&descriptor, nullptr);
}

/// One batch of a kernel with one input; returns the samples of output 0, if it has one.
inline std::vector<Sample> RunBatch(Engine &engine, uint32_t dtype, std::vector<Sample> &samples,
                                    Pool &pool) {
  PortInfo info;
  info.dtype = dtype;
  info.ndim = static_cast<int32_t>(samples.at(0).shape.size());
  engine.Begin(static_cast<int64_t>(samples.size()));
  engine.DescribeInput(0, info);
  for (size_t s = 0; s < samples.size(); s++) {
    engine.SetInput(static_cast<int64_t>(s), 0, samples[s].bytes.data(), samples[s].shape.data());
  }
  engine.Setup();
  std::vector<Sample> outputs(engine.n_out() ? samples.size() : 0);
  for (size_t s = 0; s < outputs.size(); s++) {
    if (engine.bounded(0)) continue;
    const int64_t *shape = engine.shape(static_cast<int64_t>(s), 0);
    outputs[s].shape.assign(shape, shape + engine.output(0).ndim);
    int64_t n = DtypeSize(engine.output(0).dtype);
    for (int64_t extent : outputs[s].shape) n *= extent;
    outputs[s].bytes.resize(static_cast<size_t>(n));
    engine.SetOutput(static_cast<int64_t>(s), 0, outputs[s].bytes.data());
  }
  engine.Run({&pool});
  for (size_t s = 0; s < outputs.size(); s++) {
    if (!engine.bounded(0)) continue;
    const int64_t *shape = engine.actual_shape(static_cast<int64_t>(s), 0);
    outputs[s].shape.assign(shape, shape + engine.output(0).ndim);
    int64_t n = DtypeSize(engine.output(0).dtype);
    for (int64_t extent : outputs[s].shape) n *= extent;
    const char *data = static_cast<const char *>(engine.data(static_cast<int64_t>(s), 0));
    outputs[s].bytes.assign(data, data + n);
  }
  return outputs;
}

inline std::vector<Sample> RunBatch(Engine &engine, uint32_t dtype, std::vector<Sample> samples) {
  InlinePool pool;
  return RunBatch(engine, dtype, samples, pool);
}

}  // namespace opabi
