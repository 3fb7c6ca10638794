// SPDX-License-Identifier: Apache-2.0
#include "core/setup_call.h"

#include <string>

#include "core/dtype.h"
#include "core/error.h"
#include "core/report.h"

namespace opabi {
namespace {

/// Whether there is an extent that setup must leave as it is.
bool DeterminesExtents(const Signature &signature) {
  for (const Port &port : signature.outputs()) {
    for (const Dim &dim : port.dims) {
      if (dim.kind == Dim::kExpr || dim.kind == Dim::kEllipsis || dim.kind == Dim::kBounded)
        return true;
    }
  }
  return false;
}

[[noreturn]] void ThrowChanged(const Kernel &kernel, int port, const std::string &what,
                               const std::string &expected, const std::string &found) {
  throw Error(Kind::kRuntime, "OPABI-K-012",
              "kernel '" + kernel.name() + "', " + kernel.signature().OutputLabel(port) +
                  ": setup changed " + what + ", which the signature determines. Expected " +
                  expected + ", found " + found +
                  ". Write '?' in the signature for what setup decides.");
}

}  // namespace

void CallSetupFunction(const Kernel &kernel, const Specialization &functions, void *instance,
                       int64_t n_samples, const SetupTables &tables) {
  const std::vector<uint32_t> dtypes = *tables.dtypes;
  const std::vector<int32_t> ndims = *tables.ndims;
  const std::vector<int64_t> shapes =
      DeterminesExtents(kernel.signature()) ? *tables.shapes : std::vector<int64_t>();
  const int n_out = static_cast<int>(dtypes.size());

  ErrorBuffer error;
  error.Reset();
  opabi_setup setup{};
  setup.struct_size = sizeof setup;
  setup.abi = OPABI_VERSION(OPABI_MAJOR, OPABI_MINOR);
  setup.user_data = functions.user_data;
  setup.instance = instance;
  setup.n_in = tables.inputs->n_ports();
  setup.n_out = n_out;
  setup.n_args = tables.arguments->n_ports();
  setup.max_ndim = tables.max_ndim;
  setup.n_samples = n_samples;
  setup.batch_size = n_samples;
  setup.inputs = tables.inputs->row(0);
  setup.args = tables.arguments->row(0);
  setup.in_layouts = tables.in_layouts;
  setup.out_dtype = tables.dtypes->data();
  setup.out_ndim = tables.ndims->data();
  setup.out_shape = tables.shapes->data();
  setup.out_layout = tables.layouts;
  setup.scratch_bytes = tables.scratch_bytes;
  setup.err = error.text;
  setup.err_cap = sizeof error.text;
  setup.err_where = error.where;
  const int32_t status = functions.setup(&setup);
  if (status != OPABI_OK) ThrowFailure(kernel, "setup", MakeFailure(status, error, 0, n_samples));

  for (int port = 0; port < n_out; port++) {
    if (dtypes[port] != OPABI_DTYPE_UNSET && dtypes[port] != (*tables.dtypes)[port]) {
      ThrowChanged(kernel, port, "the dtype", DtypeName(dtypes[port]),
                   DtypeName((*tables.dtypes)[port]));
    }
    if (ndims[port] != OPABI_UNSET && ndims[port] != (*tables.ndims)[port]) {
      ThrowChanged(kernel, port, "the rank", std::to_string(ndims[port]),
                   std::to_string((*tables.ndims)[port]));
    }
  }
  for (size_t i = 0; i < shapes.size(); i++) {
    const int64_t before = shapes[i], after = (*tables.shapes)[i];
    if (before == OPABI_UNSET || before == after) continue;
    const int port = static_cast<int>(i / tables.max_ndim % n_out);
    ThrowChanged(kernel, port,
                 "dimension " + std::to_string(i % tables.max_ndim) + " of sample " +
                     std::to_string(i / tables.max_ndim / n_out),
                 std::to_string(before), std::to_string(after));
  }
}

}  // namespace opabi
