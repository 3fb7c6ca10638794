// SPDX-License-Identifier: Apache-2.0
// The plugin as DALI and Python see it: the schema, and a few C functions.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "core/check.h"
#include "core/error.h"
#include "dali/handles.h"
#include "dali/operator.h"

#ifndef OPABI_DALI_VERSION
#error "Pass -DOPABI_DALI_VERSION=\"2.4.0\", the DALI release whose headers are used."
#endif

namespace opabi {
namespace {

constexpr char kSchema[] = "opabi__Call";

/// Of this library's C functions: Python refuses a plugin of another one.
constexpr char kVersion[] = "1, DALI " OPABI_DALI_VERSION;

std::string ThisFile() {
  Dl_info info{};
  return dladdr(kSchema, &info) && info.dli_fname ? info.dli_fname : "";
}

/// Registers schema and operator, unless another copy of this library has.
void Register() {
  if (dali::SchemaRegistry::TryGetSchema(kSchema)) return;
  dali::OpSchema &schema = dali::SchemaRegistry::RegisterSchema(kSchema);
  schema.MakeDefined();
  schema.DocStr(R"(Calls a function-pointer kernel that follows the opabi ABI.

The inputs are the kernel's, then one for each name in ``argument_names``. Kernels are given as ``library`` and
``symbol``; ``handle`` is for kernels that Python made, and holds in their process only.)");
  schema.NumInput(0, 2 * OPABI_MAX_PORTS);
  schema.OutputFn([](const dali::OpSpec &spec) { return spec.GetArgument<int>("n_outputs"); });
  schema.AddOptionalArg("library", "Path of the shared library that holds the kernel.",
                        std::string());
  schema.AddOptionalArg("symbol", "Name of the kernel in that library.", std::string());
  schema.AddOptionalArg("handle", "Handle of a kernel that lives in this process.", int64_t{0});
  schema.AddOptionalArg("n_outputs", "Number of outputs, as in the kernel's signature.", 1);
  schema.AddOptionalArg("argument_names",
                        "Names of the arguments that the trailing inputs feed, sample by sample.",
                        std::vector<std::string>{});
  schema.AddOptionalArg("constants", "Constant arguments, written by opabi: a line of text each.",
                        std::vector<std::string>{});
  schema.AddOptionalArg("checked", "Guards round every buffer; slow. See opabi's checked mode.",
                        false);
  schema.AddOptionalArg("_plugin", "The file that this operator comes from.", ThisFile());
  schema.InputDevice(0, 2 * OPABI_MAX_PORTS, dali::InputDevice::MatchBackendOrCPU);
  schema.SupportBackend<dali::CPUBackend>();
  schema.SupportBackend<dali::GPUBackend>();
  dali::CPUOperatorRegistry::Registry().Register<dali::CPUBackend>(kSchema,
                                                                   MakeCall<dali::CPUBackend>);
  dali::GPUOperatorRegistry::Registry().Register<dali::GPUBackend>(kSchema,
                                                                   MakeCall<dali::GPUBackend>);
}

std::string g_load_error;

/// Runs when the library is loaded, also by a process without Python. Nothing may leave it: an exception here
/// would end the process.
__attribute__((constructor)) void Load() noexcept {
  try {
    Register();
  } catch (const std::exception &error) {
    g_load_error = error.what();
  } catch (...) {
    g_load_error = "an exception of unknown kind";
  }
}

/// `descriptor` as the operator uses it: who made the descriptor also releases it.
std::shared_ptr<Kernel> AdoptBorrowed(const opabi_kernel *descriptor, void *owner,
                                      void (*drop)(void *)) {
  CheckKernel(descriptor);
  auto borrowed = std::make_shared<opabi_kernel>(Normalize(*descriptor));
  borrowed->release = nullptr;
  return Kernel::Adopt(borrowed.get(), [borrowed, owner, drop] {
    if (drop) drop(owner);
  });
}

void CopyText(const std::string &text, char *err, int64_t err_cap) {
  if (!err || err_cap <= 0) return;
  const size_t n = std::min(text.size(), static_cast<size_t>(err_cap) - 1);
  std::memcpy(err, text.data(), n);
  err[n] = 0;
}

}  // namespace
}  // namespace opabi

extern "C" {

OPABI_EXPORT const char *opabi_dali_version() { return opabi::kVersion; }

/// Why loading failed, or "".
OPABI_EXPORT const char *opabi_dali_error() { return opabi::g_load_error.c_str(); }

/// Gives operators the kernel under the handle that is returned, or writes to `err` and returns 0. From now on
/// `drop(owner)` is called once, perhaps from another thread: where registering fails, or when the handle is
/// forgotten and the last operator with the kernel is gone. The descriptor lives until then.
OPABI_EXPORT int64_t opabi_dali_register(const opabi_kernel *descriptor, void *owner,
                                         void (*drop)(void *), char *err, int64_t err_cap) {
  try {
    return opabi::AddHandle(opabi::AdoptBorrowed(descriptor, owner, drop));
  } catch (const std::exception &error) {
    opabi::CopyText(error.what(), err, err_cap);
  }
  if (drop) drop(owner);
  return 0;
}

OPABI_EXPORT void opabi_dali_forget(int64_t handle) { opabi::ForgetHandle(handle); }
}
