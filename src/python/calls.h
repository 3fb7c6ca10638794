// SPDX-License-Identifier: Apache-2.0
// Calls from Python, written for the C API: pybind11's own dispatch costs as much as the whole of a small call.
#pragma once

#include <pybind11/pybind11.h>

namespace opabi {

/// Adds call, call_cuda and set_call_slot.
void AddCalls(pybind11::module_ &module);

}  // namespace opabi
