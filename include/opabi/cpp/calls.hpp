// SPDX-License-Identifier: Apache-2.0
// Raw calls: exceptions to statuses, the loop over samples, typed access to tensors.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <opabi/opabi.h>
#include <opabi/cpp/numbers.hpp>
#include <opabi/cpp/views.hpp>

// Libraries of one process may be built with different headers: what is static stays their own.
#if defined(_WIN32)
#define OPABI_HIDDEN
#else
#define OPABI_HIDDEN __attribute__((visibility("hidden")))
#endif

namespace opabi {

/// A failure with a status of the kernel's choice: throw opabi::error(OPABI_ERROR_UNSUPPORTED,
/// "...").
class error : public std::runtime_error {
 public:
  error(int32_t status, const std::string &message)
      : std::runtime_error(message), status_(status) {}
  int32_t status() const { return status_; }

 private:
  int32_t status_;
};

namespace detail OPABI_HIDDEN {

/// The status, message and place of the exception being handled.
inline int32_t report(char *err, int64_t err_cap, int64_t *err_where, int64_t sample) noexcept {
  const auto fail = [=](int32_t status, const char *message) {
    return opabi_fail(err, err_cap, err_where, sample, status, message);
  };
  try {
    throw;
  } catch (const error &e) {
    return fail(e.status(), e.what());
  } catch (const std::bad_alloc &) {
    return fail(OPABI_ERROR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::out_of_range &e) {
    return fail(OPABI_ERROR_INDEX, e.what());
  } catch (const std::invalid_argument &e) {
    return fail(OPABI_ERROR_VALUE, e.what());
  } catch (const std::exception &e) {
    return fail(OPABI_ERROR_INTERNAL, e.what());
  } catch (...) {
    return fail(OPABI_ERROR_INTERNAL, "an exception that is no std::exception");
  }
}

}  // namespace detail OPABI_HIDDEN

/// Calls body(); turns what it throws into a status, a message and a place. `call` is an opabi_call
/// or any other struct with err, err_cap and err_where; `sample` is read after the failure.
template <class Call, class Body>
int32_t guard(const Call *call, const int64_t &sample, Body body) noexcept {
  try {
    body();
    return OPABI_OK;
  } catch (...) {
    return detail::report(call->err, call->err_cap, call->err_where, sample);
  }
}

/// The frame of a run or setup written by hand: body(s) for each sample of the call.
template <class Call, class Body>
int32_t each_sample(const Call *call, Body body) noexcept {
  int64_t s = 0;
  return guard(call, s, [&] {
    for (; s < call->n_samples; s++) body(s);
  });
}

namespace detail OPABI_HIDDEN {

inline void require(const char *what, int number, const opabi_tensor &tensor, uint32_t dtype,
                    int32_t ndim) {
  if (tensor.dtype == dtype && (ndim == OPABI_NDIM_ANY || tensor.ndim == ndim)) return;
  throw error(OPABI_ERROR_TYPE, std::string(what) + " " + std::to_string(number) + " is " +
                                    type_name(tensor.dtype, tensor.ndim) +
                                    "; this kernel reads it as " + type_name(dtype, ndim));
}

template <class T, int N>
auto typed(const char *what, int port, const opabi_tensor &tensor) {
  require(what, port, tensor, dtype_of<T>(), N);
  T *data = static_cast<T *>(tensor.data);
  if constexpr (N == OPABI_NDIM_ANY) {
    return flat<T>(data, opabi_numel(&tensor));
  } else {
    return view<T, N>(data, tensor.shape);
  }
}

}  // namespace detail OPABI_HIDDEN

/// input<const uint8_t, 3>(call, s, 0) is a view, input<const uint8_t>(call, s, 0) a flat. They
/// throw opabi::error where dtype or rank differ, so use them within each_sample or guard.
template <class T, int N = OPABI_NDIM_ANY>
auto input(const opabi_call *call, int64_t sample, int port) {
  static_assert(std::is_const_v<T>, "opabi: inputs are read-only, write input<const T>");
  return detail::typed<T, N>("input", port, call->inputs[sample * call->n_in + port]);
}

template <class T, int N = OPABI_NDIM_ANY>
auto output(const opabi_call *call, int64_t sample, int port) {
  return detail::typed<T, N>("output", port, call->outputs[sample * call->n_out + port]);
}

/// The value of an argument of rank 0: argument<double>(call, s, 1); as view or flat with a const
/// type.
template <class T, int N = 0>
auto argument(const opabi_call *call, int64_t sample, int index) {
  const opabi_tensor &tensor = call->args[sample * call->n_args + index];
  auto typed = detail::typed<const T, N>("argument", index, tensor);
  if constexpr (N == 0) {
    return typed();
  } else {
    return typed;
  }
}

}  // namespace opabi
