// SPDX-License-Identifier: Apache-2.0
// The kernel's descriptor in constant memory, made of a function and a list of options.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include <opabi/cpp/functions.hpp>
#include <opabi/cpp/options.hpp>

namespace opabi {

/// The descriptor of a run function written by hand: describe("total", "float32[n] -> float32",
/// &total, opabi::critical(OPABI_WHOLE_BATCH)). Named arguments are its fields n_args and args.
template <class... Option>
constexpr opabi_kernel describe(const char *name, const char *signature, opabi_run_fn run,
                                Option... option) {
  opabi_kernel kernel{};
  kernel.magic = OPABI_MAGIC;
  kernel.struct_size = sizeof(opabi_kernel);
  kernel.abi_min = OPABI_NEEDS;
  kernel.name = name;
  kernel.signature = signature;
  kernel.device_type = OPABI_CPU;
  kernel.run = run;
  (option.apply(kernel), ...);
  return kernel;
}

namespace detail OPABI_HIDDEN {

/// The number of ports on one side of a signature: 1 + commas outside brackets.
constexpr int count_ports(std::string_view signature, bool outputs) {
  const size_t arrow = signature.find("->");
  if (arrow == std::string_view::npos) return -1;
  const std::string_view side = outputs ? signature.substr(arrow + 2) : signature.substr(0, arrow);
  int depth = 0, commas = 0;
  bool blank = true;
  for (const char c : side) {
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    commas += c == ',' && depth == 0;
    blank = blank && (c == ' ' || c == '\t' || c == '\n');
  }
  return blank ? 0 : 1 + commas;
}

/// A default in the parameter's own type, with its shape.
template <class T, int N>
struct stored {
  T values[N ? N : 1] = {};
  int64_t shape[1] = {N};
  int64_t strides[1] = {1};

  template <class V>
  constexpr explicit stored(const arg_option<V, N> &option) {
    for (int i = 0; i < N; i++) {
      values[i] = static_cast<T>(option.values[i]);
      const bool same = static_cast<V>(values[i]) == option.values[i] &&
                        (values[i] < T()) == (option.values[i] < V());
      if (!std::is_floating_point_v<T> && !same)
        throw "opabi: the default does not fit the parameter's type";
    }
  }
};

template <class Definition, auto... F>
struct descriptor {
  static constexpr auto &options = Definition::options;
  static constexpr int n_args = options.n_args;
  using first = std::tuple_element_t<0, std::tuple<function<F, n_args>...>>;

  static constexpr bool agree(const port_type *types, int n_in, int n_out) {
    if (n_in != first::n_in || n_out != first::n_out) return false;
    for (int i = n_in + n_out; i < first::signature::count; i++) {
      if (types[i].dtype != first::types[i].dtype || types[i].ndim != first::types[i].ndim) {
        return false;
      }
    }
    return true;
  }
  static_assert((agree(function<F, n_args>::types, function<F, n_args>::n_in,
                       function<F, n_args>::n_out) &&
                 ...),
                "opabi: variants agree in their numbers of ports and in their arguments' types");
  static_assert(count_ports(options.signature, false) == first::n_in,
                "opabi: the signature and the function differ in the number of inputs");
  static_assert(count_ports(options.signature, true) == first::n_out,
                "opabi: the signature and the function differ in the number of outputs");

  static constexpr auto arg_options = options.args();
  template <int A>
  using param_of = param<typename first::template at<first::n_in + first::n_out + A>>;

  template <int... A>
  static constexpr auto store(std::integer_sequence<int, A...>) {
    return std::make_tuple(store_one<typename param_of<A>::element>(std::get<A>(arg_options))...);
  }
  template <class T, class V, int N>
  static constexpr auto store_one(const arg_option<V, N> &option) {
    return stored<T, N>(option);
  }
  static constexpr auto defaults = store(std::make_integer_sequence<int, n_args>());

  template <int... A>
  static constexpr std::array<opabi_tensor, n_args + 1> tensors_of(
      std::integer_sequence<int, A...>) {
    return {{default_of<A>()..., {}}};
  }
  template <int A>
  static constexpr opabi_tensor default_of() {
    using reader = param_of<A>;
    const auto &value = std::get<A>(defaults);
    const int32_t ndim = std::get<A>(arg_options).ndim;
    if (ndim != OPABI_NDIM_ANY && reader::ndim != OPABI_NDIM_ANY && reader::ndim != ndim) {
      throw "opabi: the default's rank is not the parameter's";
    }
    return {const_cast<typename reader::element *>(value.values),
            OPABI_CPU,
            0,
            ndim,
            reader::dtype,
            ndim == 1 ? value.shape : nullptr,
            ndim == 1 ? value.strides : nullptr,
            0};
  }
  static constexpr auto tensors = tensors_of(std::make_integer_sequence<int, n_args>());

  template <int... A>
  static constexpr std::array<opabi_arg, n_args + 1> args_of(std::integer_sequence<int, A...>) {
    return {{{std::get<A>(arg_options).name, std::get<A>(arg_options).text, param_of<A>::dtype,
              param_of<A>::ndim, tensors[A].ndim == OPABI_NDIM_ANY ? nullptr : &tensors[A], 0}...,
             {}}};
  }
  static constexpr auto args = args_of(std::make_integer_sequence<int, n_args>());

  static constexpr variant variants[] = {
      {function<F, n_args>::types, &function<F, n_args>::run}...};
  static constexpr variant_list list = {variants,     sizeof...(F), first::n_in,
                                        first::n_out, n_args,       args.data()};
  static int32_t run(const opabi_call *call) noexcept { return list.run(call); }

  static constexpr opabi_kernel make() {
    opabi_kernel all = describe(Definition::name, options.signature, &run);
    all.n_args = n_args;
    all.args = n_args ? args.data() : nullptr;
    options.apply(all);
    return all;
  }
  static constexpr opabi_kernel kernel = make();

  static constexpr bool takes_strides(const port_type *types) {
    for (int i = 0; i < first::n_in; i++) {
      if (!types[i].any_strides) return false;
    }
    return true;
  }
  static_assert(!(kernel.traits & OPABI_ANY_STRIDES) ||
                    (takes_strides(function<F, n_args>::types) && ...),
                "opabi: a kernel with OPABI_ANY_STRIDES reads its inputs as opabi::strided");
};

}  // namespace detail OPABI_HIDDEN

}  // namespace opabi
