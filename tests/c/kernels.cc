// SPDX-License-Identifier: Apache-2.0
//
// Kernels in C++ through opabi.hpp: one for each thing that the header offers.
#include <algorithm>
#include <numeric>
#include <vector>

#include <opabi/opabi.hpp>

namespace {

using opabi::bounded;
using opabi::context;
using opabi::flat;
using opabi::shapes;
using opabi::strided;
using opabi::view;

// ---- Inputs and outputs ------------------------------------------------------------------------

void solarize(flat<const uint8_t> in, flat<uint8_t> out, uint8_t limit) {
  for (int64_t i = 0; i < in.size(); i++) out[i] = in[i] < limit ? in[i] : 255 - in[i];
}
OPABI_CPP_KERNEL(solarize, "uint8[...] -> uint8[...]",
                 opabi::arg("limit", 128).doc("From here on, inverted."),
                 opabi::doc("Inverts what is bright."),
                 opabi::traits(OPABI_PURE | OPABI_DETERMINISTIC));

template <class T>
void negate(flat<const T> in, flat<T> out) {
  for (int64_t i = 0; i < in.size(); i++) out[i] = static_cast<T>(-in[i]);
}
OPABI_CPP_VARIANTS(negate, (negate<int32_t>, negate<float>, negate<opabi::float16>),
                   "T[...] -> T[...]");

void transpose_chw(view<const uint8_t, 3> in, view<uint8_t, 3> out) {
  for (int64_t c = 0; c < in.extent(2); c++)
    for (int64_t y = 0; y < in.extent(0); y++)
      for (int64_t x = 0; x < in.extent(1); x++) out(c, y, x) = in(y, x, c);
}
OPABI_CPP_KERNEL(transpose_chw, "uint8[h,w,c]@HWC -> uint8[c,h,w]@CHW");

void keep_greater(flat<const int32_t> in, bounded<int32_t> out, int32_t limit) {
  for (const int32_t value : in) {
    if (value > limit) out.push_back(value);
  }
}
OPABI_CPP_KERNEL(keep_greater, "int32[n] -> int32[<=n]", opabi::arg("limit", 4));

void keep_rows(view<const float, 2> in, bounded<float, 2> out) {
  out.resize((in.extent(0) + 1) / 2, in.extent(1));
  for (int64_t i = 0; i < out.extent(0); i++)
    for (int64_t j = 0; j < out.extent(1); j++) out.now()(i, j) = in(2 * i, j);
}
OPABI_CPP_KERNEL(keep_rows, "float32[n,m] -> float32[<=n,m]", opabi::doc("Every second row."));

void overrun(flat<const int32_t> in, bounded<int32_t> out) { out.resize(in.size() + 1); }
OPABI_CPP_KERNEL(overrun, "int32[n] -> int32[<=n]", opabi::doc("Wants more than its bound."));

void row_sums(strided<const float, 2> in, flat<float> out) {
  for (int64_t i = 0; i < in.extent(0); i++) {
    out[i] = 0;
    for (int64_t j = 0; j < in.extent(1); j++) out[i] += in(i, j);
  }
}
OPABI_CPP_KERNEL(row_sums, "float32[h,w] -> float32[h]", opabi::traits(OPABI_ANY_STRIDES));

void scaled(int64_t x, double &y, double factor) { y = static_cast<double>(x) * factor; }
OPABI_CPP_KERNEL(scaled, "int64 -> float64", opabi::arg("factor", 2));

// ---- Arguments ---------------------------------------------------------------------------------

void normalize(view<const uint8_t, 3> in, view<float, 3> out, view<const float, 1> mean,
               flat<const float> scale, bool swap) {
  if (mean.extent(0) != in.extent(2)) throw std::invalid_argument("one mean for each channel");
  for (int64_t y = 0; y < in.extent(0); y++)
    for (int64_t x = 0; x < in.extent(1); x++)
      for (int64_t c = 0; c < in.extent(2); c++) {
        const int64_t to = swap ? in.extent(2) - 1 - c : c;
        out(y, x, to) =
            (static_cast<float>(in(y, x, c)) - mean(c)) * scale[scale.size() > 1 ? c : 0];
      }
}
OPABI_CPP_KERNEL(normalize, "uint8[h,w,c] -> float32[h,w,c]", opabi::arg("mean", {1.0, 2.0, 3.0}),
                 opabi::arg("scale", 0.5f), opabi::arg("swap", false));

void spelled(std::string_view text, flat<uint8_t> out, std::string_view way) {
  std::copy(text.begin(), text.end(), out.begin());
  if (way == "reversed") std::reverse(out.begin(), out.end());
}
void spelled_like_input(shapes s) { s.set(0, s.input(0)); }
OPABI_CPP_KERNEL(spelled, "uint8[n] -> uint8[?]", opabi::arg("way", "forwards"),
                 opabi::setup<spelled_like_input>);

// ---- Setup, state, context ---------------------------------------------------------------------

void joined_shape(shapes s) { s.set(0, {s.input(0)[0] + s.input(1)[0]}); }
void joined(flat<const int32_t> a, flat<const int32_t> b, flat<int32_t> out) {
  std::copy(b.begin(), b.end(), std::copy(a.begin(), a.end(), out.begin()));
}
OPABI_CPP_KERNEL(joined, "int32[n], int32[m] -> int32[?]", opabi::setup<joined_shape>);

void open_shape(shapes s) {
  const auto wide = s.argument<bool>(0);
  s.set_dtype(0, wide ? OPABI_FLOAT64 : OPABI_FLOAT32);
  s.set(0, {s.input(0)[0], 1});
  s.set_layout(0, "XY");
}
template <class T>
void open(flat<const int32_t> in, view<T, 2> out, bool) {
  for (int64_t i = 0; i < in.size(); i++) out(i, 0) = static_cast<T>(in[i]);
}
OPABI_CPP_VARIANTS(open, (open<float>, open<double>), "int32[n] -> ?[...?]",
                   opabi::arg("wide", false), opabi::setup<open_shape>,
                   opabi::doc("A column, of a type that setup chooses."));

void median_scratch(shapes s) { s.need_scratch(s.input(0)[0] * 4); }
void median(context here, flat<const float> in, float &out) {
  if (in.empty()) throw std::invalid_argument("no median of no elements");
  float *sorted = here.scratch<float>();
  std::copy(in.begin(), in.end(), sorted);
  std::nth_element(sorted, sorted + in.size() / 2, sorted + in.size());
  out = sorted[in.size() / 2];
}
OPABI_CPP_KERNEL(median, "float32[n] -> float32", opabi::setup<median_scratch>);

struct Count {
  explicit Count(const opabi_create &create) : start(create.max_batch * 0) {}
  int64_t start, n = 0;
};
void counter(const context &here, flat<const int32_t>, int64_t &out) {
  out = here.state<Count>().start + here.state<Count>().n++;
}
OPABI_CPP_KERNEL(counter, "int32[n] -> int64", opabi::state<Count>);

struct NoCount {
  NoCount() { throw std::invalid_argument("no counting today"); }
};
void uncounted(flat<const int32_t>, int64_t &out) noexcept { out = 0; }
OPABI_CPP_KERNEL(uncounted, "int32[n] -> int64", opabi::state<NoCount>);

void place(context here, flat<const int32_t>, flat<int64_t> out) {
  out[0] = here.index();
  out[1] = here.sample();
  out[2] = static_cast<int64_t>(std::string_view(here.in_layout(0)).size());
}
OPABI_CPP_KERNEL(place, "int32[...] -> int64[3]");

// ---- Failing -----------------------------------------------------------------------------------

void thrown(int32_t which, int32_t &out) {
  switch (which) {
    case 1: throw std::invalid_argument("a bad value");
    case 2: throw std::out_of_range("an index out of range");
    case 3: throw std::bad_alloc();
    case 4: throw opabi::error(OPABI_ERROR_UNSUPPORTED, "not here");
    case 5: throw std::runtime_error("a fault");
    case 6: throw 6;
    default: out = which;
  }
}
OPABI_CPP_KERNEL(thrown, "int32 -> int32", opabi::doc("Throws, by its input."));

void mistyped(view<const float, 2> in, flat<float> out) {
  std::copy_n(in.data(), in.size(), out.data());
}
OPABI_CPP_KERNEL(mistyped, "T[...] -> T[...]", opabi::doc("Takes less than its signature says."));

template <class T>
void add(flat<const T> a, flat<const T> b, flat<T> out) {
  for (int64_t i = 0; i < a.size(); i++) out[i] = a[i] + b[i];
}
OPABI_CPP_VARIANTS(add, (add<int32_t>, add<float>), "A[...n], B[...n] -> A[...n]");

void typed_argument(flat<const float> in, flat<float> out, float gain) {
  for (int64_t i = 0; i < in.size(); i++) out[i] = gain * in[i];
}
OPABI_CPP_KERNEL(typed_argument, "float32[n] -> float32[n]", opabi::arg("gain"));

// ---- By hand -----------------------------------------------------------------------------------

int32_t total(const opabi_call *call) {
  double sum = 0;
  const int32_t read = opabi::each_sample(call, [&](int64_t s) {
    const auto in = opabi::input<const float, 2>(call, s, 0);
    sum += std::accumulate(in.data(), in.data() + in.size(), 0.0);
  });
  if (read != OPABI_OK) return read;
  return opabi::each_sample(call, [&](int64_t s) { opabi::output<double>(call, s, 0)[0] = sum; });
}
const opabi_kernel total_kernel =
    opabi::describe("total", "T[...] -> float64", &total, opabi::critical(OPABI_WHOLE_BATCH));

}  // namespace

OPABI_LIBRARY("kernels_cc", "1.0.0", &solarize_kernel, &negate_kernel, &transpose_chw_kernel,
              &keep_greater_kernel, &keep_rows_kernel, &overrun_kernel, &row_sums_kernel,
              &scaled_kernel, &normalize_kernel, &spelled_kernel, &joined_kernel, &open_kernel,
              &median_kernel, &counter_kernel, &uncounted_kernel, &place_kernel, &thrown_kernel,
              &mistyped_kernel, &add_kernel, &typed_argument_kernel, &total_kernel)
