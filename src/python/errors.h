// SPDX-License-Identifier: Apache-2.0
// Errors across the border between C++ and Python, in both directions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "core/error.h"

namespace opabi {

/// Makes opabi::Error arrive in Python as the class of python/opabi/errors.py that fits.
void RegisterErrors();

/// Sets the Python error for an Error, with `cause` (may be none) as its __cause__.
void SetPythonError(const Error &error, pybind11::object cause);

/// An exception that ends more than a call (Ctrl-C, SystemExit) came up inside a kernel, out of which comes
/// no more than a status: the next SetPythonError in this thread raises it in place of its own.
void RaiseAfterCall(pybind11::object exception);

/// The status and the text that a Python exception becomes inside a kernel.
std::pair<int32_t, std::string> StatusOfPythonError(pybind11::error_already_set &error);

}  // namespace opabi
