// SPDX-License-Identifier: Apache-2.0
// Text and numbers that Python code hands over, whatever objects they are.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

namespace opabi {

/// A str without NUL as UTF-8. Throws Error (kType, kValue) that begins with `what`.
std::string TextOf(pybind11::handle object, const std::string &what);

/// An integer from `low` to `high`. Throws Error (kType, kValue) that begins with `what`.
int64_t IntegerOf(pybind11::handle object, const std::string &what, int64_t low, int64_t high);

/// An address, 0 for none. Throws as IntegerOf.
uintptr_t AddressOf(pybind11::handle object, const std::string &what);

/// str(object) for messages: lone surrogates escaped, empty where str() raises.
std::string Shown(pybind11::handle object);

}  // namespace opabi
