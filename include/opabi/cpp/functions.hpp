// SPDX-License-Identifier: Apache-2.0
// An ordinary function as a run function: its parameters say how tensors are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <opabi/cpp/context.hpp>

namespace opabi {

namespace detail OPABI_HIDDEN {

// ---- Parameters: how each type of them is read from a tensor ------------------------------------

template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T> || std::is_same_v<T, float16>;

template <class P, class = void>
struct param {
  static_assert(!std::is_same_v<P, P>, "opabi: not a parameter type; opabi.hpp lists them");
};

template <class T, int32_t Ndim, bool Output>
struct param_base {
  using element = std::remove_const_t<T>;
  static constexpr uint32_t dtype = dtype_of<T>();
  static constexpr int32_t ndim = Ndim;
  static constexpr bool output = Output, bounded = false, any_strides = Ndim == 0;
};

template <class T>
struct param<T, std::enable_if_t<is_number<T>>> : param_base<T, 0, false> {
  static T read(const opabi_tensor &tensor, int64_t *) {
    return *static_cast<const T *>(tensor.data);
  }
};
template <class T>
struct param<T &, std::enable_if_t<is_number<T> && !std::is_const_v<T>>> : param_base<T, 0, true> {
  static T &read(const opabi_tensor &tensor, int64_t *) { return *static_cast<T *>(tensor.data); }
};
template <class P>
struct param<const P &> : param<P> {};

template <>
struct param<std::string_view> : param_base<uint8_t, 1, false> {
  static std::string_view read(const opabi_tensor &tensor, int64_t *) {
    return {static_cast<const char *>(tensor.data), static_cast<size_t>(tensor.shape[0])};
  }
};
template <class T>
struct param<flat<T>> : param_base<T, OPABI_NDIM_ANY, !std::is_const_v<T>> {
  static flat<T> read(const opabi_tensor &tensor, int64_t *) {
    return {static_cast<T *>(tensor.data), opabi_numel(&tensor)};
  }
};
template <class T, int N>
struct param<view<T, N>> : param_base<T, N, !std::is_const_v<T>> {
  static view<T, N> read(const opabi_tensor &tensor, int64_t *) {
    return {static_cast<T *>(tensor.data), tensor.shape};
  }
};
template <class T, int N>
struct param<strided<T, N>> : param_base<T, N, false> {
  static_assert(std::is_const_v<T>, "opabi: strided is for inputs, write strided<const T, N>");
  static constexpr bool any_strides = true;
  static strided<T, N> read(const opabi_tensor &tensor, int64_t *) {
    return {static_cast<T *>(tensor.data), tensor.shape, tensor.strides};
  }
};
template <class T, int N>
struct param<bounded<T, N>> : param_base<T, N, true> {
  static constexpr bool bounded = true;
  static opabi::bounded<T, N> read(const opabi_tensor &tensor, int64_t *actual) {
    return {static_cast<T *>(tensor.data), tensor.shape, actual};
  }
};

struct port_type {
  uint32_t dtype;
  int32_t ndim;
  bool output, bounded, any_strides;
};

// ---- Functions: what their types say, and the loop over samples ---------------------------------

template <class... P>
struct parameters {
  static constexpr bool has_context = false;
  static constexpr int count = sizeof...(P);
  static constexpr port_type types[] = {{param<P>::dtype, param<P>::ndim, param<P>::output,
                                         param<P>::bounded, param<P>::any_strides}...,
                                        {}};
  template <int I>
  using at = std::tuple_element_t<I, std::tuple<P...>>;
};
template <class... P>
struct parameters<context, P...> : parameters<P...> {
  static constexpr bool has_context = true;
};
template <class... P>
struct parameters<const context &, P...> : parameters<context, P...> {};

template <class F>
struct signature_of;
template <class... P>
struct signature_of<void (*)(P...)> : parameters<P...> {};
template <class... P>
struct signature_of<void (*)(P...) noexcept> : parameters<P...> {};

template <auto F, int n_args>
struct function : signature_of<decltype(F)> {
  using signature = signature_of<decltype(F)>;
  static_assert(signature::count >= n_args,
                "opabi: more opabi::arg than the function has parameters");
  static constexpr int n_out = [] {
    int n = 0;
    while (n < signature::count - n_args &&
           signature::types[signature::count - n_args - 1 - n].output)
      n++;
    return n;
  }();
  static constexpr int n_in = signature::count - n_args - n_out;
  static constexpr bool ordered = [] {
    for (int i = 0; i < signature::count; i++) {
      if (signature::types[i].output != (i >= n_in && i < n_in + n_out)) return false;
    }
    return true;
  }();
  static_assert(ordered,
                "opabi: parameters are inputs, then outputs, then one for each opabi::arg");

  template <int I>
  static decltype(auto) read(const opabi_call *call, int64_t s) {
    using reader = param<typename signature::template at<I>>;
    if constexpr (I < n_in) {
      return reader::read(call->inputs[s * n_in + I], nullptr);
    } else if constexpr (I < n_in + n_out) {
      const int64_t at = s * n_out + I - n_in;
      return reader::read(call->outputs[at],
                          reader::bounded ? call->out_actual + at * call->max_ndim : nullptr);
    } else {
      return reader::read(call->args[s * n_args + I - n_in - n_out], nullptr);
    }
  }
  template <int... I>
  static void sample(const opabi_call *call, int64_t s, std::integer_sequence<int, I...>) {
    if constexpr (signature::has_context) {
      F(context(call, s), read<I>(call, s)...);
    } else {
      F(read<I>(call, s)...);
    }
  }
  static int32_t run(const opabi_call *call) noexcept {
    return each_sample(call, [call](int64_t s) {
      sample(call, s, std::make_integer_sequence<int, signature::count>());
    });
  }
};

// ---- The choice among variants, made once a call, since a call's types are uniform -------------

struct variant {
  const port_type *types;
  opabi_run_fn run;
};

struct variant_list {
  const variant *variants;
  int n, n_in, n_out, n_args;
  const opabi_arg *args;

  int32_t run(const opabi_call *call) const noexcept {
    if (call->n_in != n_in || call->n_out != n_out || call->n_args != n_args) {
      return OPABI_FAIL(call, OPABI_UNSET, OPABI_ERROR_ABI,
                        "the host's numbers of inputs, outputs and arguments are not the kernel's");
    }
    for (int v = 0; v < n; v++) {
      int i = 0;
      while (i < n_ports() && takes(call, v, i)) i++;
      if (i == n_ports()) return variants[v].run(call);
    }
    return guard(call, OPABI_UNSET, [this, call] { refuse(call); });
  }

 private:
  int n_ports() const { return n_in + n_out + n_args; }

  const opabi_tensor &tensor(const opabi_call *call, int i) const {
    if (i < n_in) return call->inputs[i];
    return i < n_in + n_out ? call->outputs[i - n_in] : call->args[i - n_in - n_out];
  }
  bool takes(const opabi_call *call, int v, int i) const {
    const opabi_tensor &t = tensor(call, i);
    const port_type &type = variants[v].types[i];
    return type.dtype == t.dtype && (type.ndim == OPABI_NDIM_ANY || type.ndim == t.ndim) &&
           (!type.bounded || call->out_actual);
  }

  void refuse(const opabi_call *call) const {
    for (int i = 0; i < n_ports(); i++) {
      bool taken = false;
      for (int v = 0; v < n; v++) taken = taken || takes(call, v, i);
      if (taken) continue;
      const opabi_tensor &t = tensor(call, i);
      throw error(OPABI_ERROR_TYPE, label(i) + " is " + type_name(t.dtype, t.ndim) +
                                        "; this kernel takes " + accepted(i));
    }
    throw error(OPABI_ERROR_TYPE, "no variant of this kernel takes this combination of types");
  }
  std::string label(int i) const {
    if (i >= n_in + n_out) return std::string("argument '") + args[i - n_in - n_out].name + "'";
    return i < n_in ? "input " + std::to_string(i) : "output " + std::to_string(i - n_in);
  }
  std::string accepted(int i) const {
    std::string text;
    for (int v = 0; v < n; v++) {
      const port_type &type = variants[v].types[i];
      text += (v ? " or " : "") + type_name(type.dtype, type.ndim);
      if (type.bounded) text += " with an extent \"<=\" in the signature";
    }
    return text;
  }
};

}  // namespace detail OPABI_HIDDEN

}  // namespace opabi
