// SPDX-License-Identifier: Apache-2.0
// The rules of kind S. The text is the kernel author's duty, checked once when it is parsed:
//
//   OPABI-S-001  A signature MUST be ASCII text.
//   OPABI-S-002  A signature MUST NOT be longer than 16384 bytes.
//   OPABI-S-003  A signature MUST have "->" between its inputs and its outputs.
//   OPABI-S-004  A signature MUST have the form that the grammar gives.
//   OPABI-S-005  A signature MUST end after its last output.
//   OPABI-S-006  A signature MUST NOT have more than 64 inputs or more than 64 outputs.
//   OPABI-S-007  A port's name MUST NOT be the name of another port or of an argument.
//   OPABI-S-008  A port's type MUST be the name of a dtype, a type variable that is not such a name
//                in capital letters, or, in an output, "?".
//   OPABI-S-009  A type variable of an output MUST be the type of an input.
//   OPABI-S-010  "?" and "<=" MUST stand in outputs only.
//   OPABI-S-011  A port MUST NOT have more than one ellipsis.
//   OPABI-S-012  An ellipsis of an output MUST stand in an input, under the same name.
//   OPABI-S-013  A port MUST NOT have more than 15 dimensions besides its ellipsis.
//   OPABI-S-014  An integer, and what constants give, MUST fit in a signed 64-bit integer.
//   OPABI-S-015  A divisor MUST NOT be the constant 0.
//   OPABI-S-016  Parentheses MUST NOT be nested more than 30 deep.
//   OPABI-S-017  A name in an extent MUST stand alone as an extent of an input, or be an
//                argument's.
//   OPABI-S-018  An argument in an extent MUST be declared with an integer dtype or any, and with
//                rank 0 or any.
//   OPABI-S-019  A layout MUST be 1 to 15 letters and digits.
//   OPABI-S-020  A layout MUST have one character for each dimension; beside an ellipsis, at least
//                one for each other dimension.
//   OPABI-S-021  An extent of constants alone MUST NOT be negative.
//   OPABI-S-022  "...?" MUST stand alone in its port.
//
// What arrives is the caller's duty, checked for each batch or sample by every host:
//
//   OPABI-S-031  An input's dtype MUST be the one its port names; under a type variable, any dtype.
//   OPABI-S-032  Inputs under one type variable MUST have one dtype.
//   OPABI-S-033  An input's rank MUST be the number of its port's dimensions; with an ellipsis, at
//                least that of the others, and the length of the layout if there is one; in any
//                case at most 15.
//   OPABI-S-034  An ellipsis MUST stand for equally many extents in all inputs that have it.
//   OPABI-S-035  An output's rank MUST NOT be more than 15 once its ellipsis is known, and MUST be
//                the length of its layout if it has one.
//   OPABI-S-036  An input's extent MUST be equal to what its port's dimension gives: a constant, an
//                expression, or a name's value, which is the argument's of that name, else the
//                extent where the name first stands alone; likewise for the extents of an ellipsis.
//   OPABI-S-037  Every step in the evaluation of an extent MUST stay in the signed 64-bit integers.
//   OPABI-S-038  A divisor MUST NOT be 0; the quotient is rounded down.
//   OPABI-S-039  An output's extent, and the bound of one, MUST NOT be negative.
//   OPABI-S-040  An argument in an extent MUST come with an integer dtype, rank 0, and a value that
//                fits in a signed 64-bit integer.
#include "core/signature.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/error.h"

namespace opabi {
namespace {

std::string Quote(const std::string &text) { return "\"" + text + "\""; }

std::string Label(const char *kind, int number, const std::string &name) {
  std::string label = kind + std::to_string(number);
  return name.empty() ? label : label + " '" + name + "'";
}

}  // namespace

int Port::ellipsis_at() const {
  for (size_t i = 0; i < dims.size(); i++) {
    if (dims[i].kind == Dim::kEllipsis || dims[i].kind == Dim::kOpenRank)
      return static_cast<int>(i);
  }
  return -1;
}

bool Port::open_rank() const {
  int at = ellipsis_at();
  return at >= 0 && dims[at].kind == Dim::kOpenRank;
}

bool Port::bounded() const {
  return std::any_of(dims.begin(), dims.end(), [](const Dim &dim) {
    return dim.kind == Dim::kBounded || dim.kind == Dim::kBoundedOpen;
  });
}

std::string Signature::InputLabel(int port) const {
  return Label("input ", port, inputs_[port].name);
}
std::string Signature::OutputLabel(int port) const {
  return Label("output ", port, outputs_[port].name);
}

// ---- Types and ranks, once for each combination -------------------------------------------------

BoundTypes Signature::BindTypes(const uint32_t *in_dtype, const int32_t *in_ndim) const {
  BoundTypes types;
  types.type_variables.assign(type_variables_.size(), OPABI_DTYPE_ANY);
  types.ellipsis_ranks.assign(ellipses_.size(), -1);
  for (int port = 0; port < static_cast<int>(inputs_.size()); port++) {
    BindType(port, in_dtype[port], &types);
    BindRank(port, in_ndim[port], &types);
  }
  for (int port = 0; port < static_cast<int>(outputs_.size()); port++) {
    const Port &output = outputs_[port];
    uint32_t dtype = output.open_dtype           ? static_cast<uint32_t>(OPABI_DTYPE_UNSET)
                     : output.type_variable >= 0 ? types.type_variables[output.type_variable]
                                                 : output.dtype;
    types.out_dtype.push_back(dtype);
    types.out_ndim.push_back(OutputRank(port, types));
  }
  return types;
}

void Signature::BindType(int port, uint32_t dtype, BoundTypes *types) const {
  const Port &input = inputs_[port];
  const auto fail = [&](const char *rule, const std::string &expected) {
    throw Error(Kind::kType, rule,
                InputLabel(port) + ": expected " + expected + ", found " + DtypeName(dtype) +
                    "; convert the data to fit " + Quote(input.text) + ".");
  };
  if (!IsDtype(dtype)) fail("OPABI-S-031", "an element type of opabi");
  if (input.type_variable < 0) {
    if (dtype != input.dtype) fail("OPABI-S-031", DtypeName(input.dtype));
    return;
  }
  uint32_t &bound = types->type_variables[input.type_variable];
  if (bound == OPABI_DTYPE_ANY) bound = dtype;
  if (bound == dtype) return;
  int first = 0;
  while (inputs_[first].type_variable != input.type_variable) first++;
  fail("OPABI-S-032", DtypeName(bound) + ", which " + type_variables_[input.type_variable] +
                          " is by " + InputLabel(first));
}

void Signature::BindRank(int port, int32_t ndim, BoundTypes *types) const {
  const Port &input = inputs_[port];
  const auto fail = [&](const char *rule, const std::string &expected) {
    throw Error(Kind::kType, rule,
                InputLabel(port) + ": expected rank " + expected + ", found " +
                    std::to_string(ndim) + "; reshape the data to fit " + Quote(input.text) + ".");
  };
  if (ndim < 0 || ndim > OPABI_MAX_NDIM) fail("OPABI-S-033", "0 to 15");
  const int ellipsis_at = input.ellipsis_at();
  const int n_dims = static_cast<int>(input.dims.size());
  if (ellipsis_at < 0) {
    if (ndim != n_dims) fail("OPABI-S-033", std::to_string(n_dims));
    return;
  }
  if (ndim < n_dims - 1) fail("OPABI-S-033", std::to_string(n_dims - 1) + " or more");
  if (!input.layout.empty() && ndim != static_cast<int>(input.layout.size())) {
    fail("OPABI-S-033", std::to_string(input.layout.size()) + ", the length of its layout");
  }
  const int number = input.dims[ellipsis_at].ellipsis;
  int &bound = types->ellipsis_ranks[number];
  if (bound < 0) bound = ndim - (n_dims - 1);
  if (bound == ndim - (n_dims - 1)) return;
  fail("OPABI-S-034", std::to_string(bound + n_dims - 1) + ", as " + Quote(ellipses_[number]) +
                          " stands for " + std::to_string(bound) + " extents in " +
                          InputLabel(ellipsis_places_[number].port));
}

int32_t Signature::OutputRank(int port, const BoundTypes &types) const {
  const Port &output = outputs_[port];
  const int ellipsis_at = output.ellipsis_at();
  const int n_dims = static_cast<int>(output.dims.size());
  if (ellipsis_at < 0) return n_dims;
  if (output.open_rank()) return OPABI_UNSET;
  const int ndim = n_dims - 1 + types.ellipsis_ranks[output.dims[ellipsis_at].ellipsis];
  const auto fail = [&](const std::string &expected) {
    throw Error(Kind::kType, "OPABI-S-035",
                OutputLabel(port) + ": expected rank " + expected + ", found " +
                    std::to_string(ndim) +
                    " from the inputs' ranks; pass inputs whose rank gives one that fits " +
                    Quote(output.text) + ".");
  };
  if (ndim > OPABI_MAX_NDIM) fail("15 at most");
  if (!output.layout.empty() && ndim != static_cast<int>(output.layout.size())) {
    fail(std::to_string(output.layout.size()) + ", the length of its layout");
  }
  return ndim;
}

// ---- Extents, for each sample -------------------------------------------------------------------

void Signature::InferShapes(const BoundTypes &types, const opabi_tensor *inputs,
                            const opabi_tensor *args, int64_t sample, int32_t max_ndim,
                            int64_t *out_shape) const {
  const Scope scope{dimension_places_.data(), inputs, args};
  CheckInputExtents(types, scope, sample);
  for (int port = 0; port < static_cast<int>(outputs_.size()); port++) {
    int64_t *const row = out_shape + static_cast<int64_t>(port) * max_ndim;
    if (types.out_ndim[port] == OPABI_UNSET) {
      std::fill_n(row, max_ndim, OPABI_UNSET);
      continue;
    }
    int axis = 0;
    const std::vector<Dim> &dims = outputs_[port].dims;
    for (int i = 0; i < static_cast<int>(dims.size()); i++) {
      const Dim &dim = dims[i];
      if (dim.kind == Dim::kEllipsis) {
        const Place &first = ellipsis_places_[dim.ellipsis];
        const int64_t *extents = inputs[first.port].shape + first.axis;
        const int rank = types.ellipsis_ranks[dim.ellipsis];
        for (int d = 0; d < rank; d++) row[axis++] = extents[d];
        continue;
      }
      int64_t extent = OPABI_UNSET;
      if (dim.kind == Dim::kExpr || dim.kind == Dim::kBounded) {
        const Fault fault = Evaluate(dim.expr, scope, &extent);
        if (fault != Fault::kNone) ThrowFault({true, {port, i, axis}, sample, scope}, fault);
        if (extent < 0) ThrowNegative({true, {port, i, axis}, sample, scope}, extent);
      }
      row[axis++] = extent;
    }
  }
}

void Signature::CheckInputExtents(const BoundTypes &types, const Scope &scope,
                                  int64_t sample) const {
  for (const Place &place : checks_) {
    const Site site{false, place, sample, scope};
    const Dim &dim = inputs_[place.port].dims[place.dim];
    if (dim.kind == Dim::kEllipsis) {
      const Place &first = ellipsis_places_[dim.ellipsis];
      const int64_t *expected = scope.inputs[first.port].shape + first.axis;
      const int64_t *found = scope.inputs[place.port].shape + place.axis;
      for (int d = 0; d < types.ellipsis_ranks[dim.ellipsis]; d++) {
        if (found[d] != expected[d]) ThrowEllipsis(site, d);
      }
      continue;
    }
    int64_t expected;
    const Fault fault = Evaluate(dim.expr, scope, &expected);
    if (fault != Fault::kNone) ThrowFault(site, fault);
    if (place.extent(scope.inputs) != expected) ThrowUnequal(site, expected);
  }
}

}  // namespace opabi
