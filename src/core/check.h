// SPDX-License-Identifier: Apache-2.0
// The rules of kind D, which descriptors keep: check.cc lists them. One function a rule.
#pragma once

#include <string>
#include <vector>

#include "core/signature.h"
#include "opabi/opabi.h"

namespace opabi {

/// A descriptor as this core knows it: fields past its struct_size are zero.
opabi_kernel Normalize(const opabi_kernel &kernel);
opabi_library Normalize(const opabi_library &library);

/// A checked kernel's signature, parsed with its arguments.
Signature ParseSignature(const opabi_kernel &kernel);

/// Throws Error that names the first rule the descriptor breaks. Reads nothing past struct_size.
void CheckKernel(const opabi_kernel *kernel);

/// The same for a library and each of its kernels; `path` is for messages.
void CheckLibrary(const opabi_library *library, const std::string &path);

struct Broken {
  std::string rule, message;
};

/// Every rule that a descriptor breaks, for checkers; stops where reading on would not be safe.
std::vector<Broken> AllBroken(const opabi_kernel *kernel);
std::vector<Broken> AllBroken(const opabi_library *library, const std::string &path);

}  // namespace opabi
