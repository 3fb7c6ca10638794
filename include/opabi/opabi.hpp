// SPDX-License-Identifier: Apache-2.0
//
// C++17 on top of opabi.h: ordinary functions over typed views become kernels. No ABI stands here;
// all of it is compiled into the kernel's library.
//
//   #include <opabi/opabi.hpp>
//
//   static void solarize(opabi::flat<const uint8_t> in, opabi::flat<uint8_t> out, uint8_t limit) {
//     for (int64_t i = 0; i < in.size(); i++) out[i] = in[i] < limit ? in[i] : 255 - in[i];
//   }
//   OPABI_CPP_KERNEL(solarize, "uint8[...] -> uint8[...]", opabi::arg("limit", 128));
//   OPABI_LIBRARY("mylib", "1.0", &solarize_kernel)
//
// The function is called once for each sample. Its parameters are, in this order:
//
//   opabi::context   if it asks for more than tensors: sample number, layouts, scratch, state
//   inputs           opabi::flat<const T>      contiguous, any rank
//                    opabi::view<const T, N>   contiguous, rank N
//                    opabi::strided<const T, N>  rank N, for kernels with OPABI_ANY_STRIDES
//                    std::string_view          uint8 of rank 1
//                    T                         a number, rank 0
//   outputs          opabi::flat<T>, opabi::view<T, N>, T & (rank 0)
//                    opabi::bounded<T, N>      "<=n" in the signature: the kernel decides its size
//   arguments        as inputs, one for each opabi::arg in the list
//
// It fails by an exception: std::invalid_argument (a bad value), std::out_of_range (an index),
// std::bad_alloc, or opabi::error with a status of its choice. Nothing unwinds out of the kernel.
//
// A run function written by hand uses each_sample, input, output and argument (calls.hpp), and
// describe (descriptor.hpp) for its descriptor.
#pragma once

#include <opabi/opabi.h>
#include <opabi/cpp/calls.hpp>
#include <opabi/cpp/context.hpp>
#include <opabi/cpp/descriptor.hpp>
#include <opabi/cpp/functions.hpp>
#include <opabi/cpp/numbers.hpp>
#include <opabi/cpp/options.hpp>
#include <opabi/cpp/views.hpp>

#define OPABI_DETAIL_OPEN(...) __VA_ARGS__

/// OPABI_CPP_VARIANTS(invert, (invert<uint8_t>, invert<float>), "T[...] -> T[...]"): one kernel of
/// several functions; a call goes to the first that takes its types. They agree in the types of
/// arguments.
#define OPABI_CPP_VARIANTS(name_, functions_, ...)                       \
  namespace {                                                            \
  struct name_##_definition {                                            \
    static constexpr const char *name = #name_;                          \
    static constexpr auto options = opabi::options(__VA_ARGS__);         \
  };                                                                     \
  }                                                                      \
  [[maybe_unused]] static constexpr const opabi_kernel &name_##_kernel = \
      opabi::detail::descriptor<name_##_definition, OPABI_DETAIL_OPEN functions_>::kernel

/// OPABI_CPP_KERNEL(solarize, "uint8[...] -> uint8[...]", opabi::arg("threshold", 128)); defines
/// solarize_kernel from the function solarize, for OPABI_LIBRARY.
#define OPABI_CPP_KERNEL(function_, ...) OPABI_CPP_VARIANTS(function_, (function_), __VA_ARGS__)
