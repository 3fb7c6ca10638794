// SPDX-License-Identifier: Apache-2.0
// Shared libraries of kernels. What is once loaded stays loaded, so descriptors never end.
#pragma once

#include <memory>
#include <string>

#include "core/kernel.h"
#include "opabi/opabi.h"

namespace opabi {

/// Opens a shared library (RTLD_NOW | RTLD_LOCAL) and checks it. `path` with a "/" names a file;
/// one without is looked for as the dynamic linker does. Throws Error: kRuntime if it does not
/// load, kValue if its descriptors break a rule. Once more, or from two paths, is harmless.
const opabi_library *OpenLibrary(const std::string &path);

/// The kernel `name` of the library at `path`. Throws Error, kValue with the names there are if
/// this is none of them.
std::shared_ptr<Kernel> OpenKernel(const std::string &path, const std::string &name);

}  // namespace opabi
