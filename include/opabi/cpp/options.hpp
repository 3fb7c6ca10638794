// SPDX-License-Identifier: Apache-2.0
// What stands in the list of OPABI_CPP_KERNEL after the signature, in any order.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>

#include <opabi/cpp/context.hpp>

namespace opabi {

namespace detail OPABI_HIDDEN {

template <class V, int N>  // N values; ndim OPABI_NDIM_ANY: no default
struct arg_option {
  const char *name;
  const char *text;
  int32_t ndim;
  V values[N ? N : 1];

  constexpr arg_option doc(const char *doc) const {
    arg_option copy = *this;
    copy.text = doc;
    return copy;
  }
};

struct doc_option {
  const char *text;
  constexpr void apply(opabi_kernel &kernel) const { kernel.doc = text; }
};
struct traits_option {
  uint32_t traits, critical;
  constexpr void apply(opabi_kernel &kernel) const {
    kernel.traits |= traits;
    kernel.critical |= critical;
  }
};
struct setup_option {
  opabi_setup_fn setup;
  constexpr void apply(opabi_kernel &kernel) const { kernel.setup = setup; }
};
struct state_option {
  int32_t (*create)(const opabi_create *);
  void (*destroy)(void *, void *);
  constexpr void apply(opabi_kernel &kernel) const {
    kernel.create = create;
    kernel.destroy = destroy;
  }
};

template <auto F>
int32_t run_setup(const opabi_setup *setup) noexcept {
  return each_sample(setup, [setup](int64_t s) { F(shapes(setup, s)); });
}

template <auto F>
constexpr opabi_setup_fn setup_of() {
  if constexpr (std::is_invocable_v<decltype(F), shapes>) {
    return &run_setup<F>;
  } else {
    return F;
  }
}

template <class T>
int32_t create_state(const opabi_create *create) noexcept {
  return guard(create, OPABI_UNSET, [create] {
    if constexpr (std::is_constructible_v<T, const opabi_create &>) {
      *create->out_instance = new T(*create);
    } else {
      *create->out_instance = new T();
    }
  });
}
template <class T>
void destroy_state(void *, void *instance) noexcept {
  delete static_cast<T *>(instance);
}

template <class T>
struct is_arg : std::false_type {};
template <class V, int N>
struct is_arg<arg_option<V, N>> : std::true_type {};

template <class... Option>
struct option_list {
  static constexpr int n_args = (0 + ... + (is_arg<Option>::value ? 1 : 0));
  const char *signature;
  std::tuple<Option...> all;

  constexpr auto args() const {
    return std::apply([](const auto &...o) { return std::tuple_cat(only_arg(o)...); }, all);
  }
  constexpr void apply(opabi_kernel &kernel) const {
    std::apply([&kernel](const auto &...o) { (apply_one(kernel, o), ...); }, all);
  }

 private:
  template <class O>
  static constexpr auto only_arg(const O &option) {
    if constexpr (is_arg<O>::value) {
      return std::tuple<O>(option);
    } else {
      return std::tuple<>();
    }
  }
  template <class O>
  static constexpr void apply_one([[maybe_unused]] opabi_kernel &kernel,
                                  [[maybe_unused]] const O &option) {
    if constexpr (!is_arg<O>::value) option.apply(kernel);
  }
};

}  // namespace detail OPABI_HIDDEN

/// A named argument without a default; dtype and rank are the parameter's. arg("gain").doc("...")
/// gives it a text.
constexpr detail::arg_option<int, 0> arg(const char *name) {
  return {name, nullptr, OPABI_NDIM_ANY, {}};
}

/// With a default: arg("gain", 1.5), arg("clip", true).
template <class V, class = std::enable_if_t<std::is_arithmetic_v<V>>>
constexpr detail::arg_option<V, 1> arg(const char *name, V value) {
  return {name, nullptr, 0, {value}};
}

/// With a default of rank 1: arg("mean", {0.5f, 0.5f, 0.5f}), or a string: arg("mode", "reflect").
template <class V, size_t N>
constexpr auto arg(const char *name, const V (&values)[N]) {
  constexpr int n = static_cast<int>(N) - (std::is_same_v<V, char> ? 1 : 0);
  detail::arg_option<V, n> option{name, nullptr, 1, {}};
  for (int i = 0; i < n; i++) option.values[i] = values[i];
  return option;
}

constexpr detail::doc_option doc(const char *text) { return {text}; }

/// traits(OPABI_PURE | OPABI_DETERMINISTIC), critical(OPABI_WHOLE_BATCH).
constexpr detail::traits_option traits(uint32_t bits) { return {bits, 0}; }
constexpr detail::traits_option critical(uint32_t bits) { return {0, bits}; }

/// setup<f> with void f(opabi::shapes), called once for each sample, or with an opabi_setup_fn.
template <auto F>
inline constexpr detail::setup_option setup = {detail::setup_of<F>()};

/// state<T>: one T for each operator, made by T(const opabi_create &) or T(); context::state<T>()
/// gives it. Calls on one operator are then serial, unless OPABI_REENTRANT is declared.
template <class T>
inline constexpr detail::state_option state = {&detail::create_state<T>, &detail::destroy_state<T>};

template <class... Option>
constexpr detail::option_list<Option...> options(const char *signature, Option... option) {
  return {signature, {option...}};
}

}  // namespace opabi
