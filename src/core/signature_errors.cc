// SPDX-License-Identifier: Apache-2.0
// What InferShapes says where an extent is not right. Apart from it, since none of this runs
// otherwise.
#include <algorithm>

#include "core/dtype.h"
#include "core/error.h"
#include "core/signature.h"

namespace opabi {
namespace {

std::string ArgumentText(const opabi_tensor &arg) {
  std::string text = DtypeName(arg.dtype) + " of rank " + std::to_string(arg.ndim);
  if (arg.ndim != 0 || arg.dtype != OPABI_UINT64) return text;
  uint64_t value;
  std::memcpy(&value, arg.data, sizeof value);
  return std::to_string(value);
}

}  // namespace

const Dim &Signature::dim(const Site &site) const {
  return (site.output ? outputs_ : inputs_)[site.place.port].dims[site.place.dim];
}

/// "input 1 'mask', dimension 0".
std::string Signature::Where(const Site &site) const {
  const int port = site.place.port;
  const int axis =
      site.place.axis < 0 ? site.place.axis + site.scope.inputs[port].ndim : site.place.axis;
  return (site.output ? OutputLabel(port) : InputLabel(port)) + ", dimension " +
         std::to_string(axis);
}

/// ", where h = 4 (input 0 'image', dimension 1) and n = 2 (argument)".
std::string Signature::Names(const Site &site) const {
  std::vector<std::string> names;
  for (const ExprOp &op : dim(site).expr) {
    int64_t value;
    if (op.code != ExprOp::kDimension && op.code != ExprOp::kArgument) continue;
    if (Load(op, site.scope, &value) != Fault::kNone) continue;
    std::string name;
    if (op.code == ExprOp::kArgument) {
      name = argument_names_[op.value] + " = " + std::to_string(value) + " (argument)";
    } else {
      name = dimensions_[op.value] + " = " + std::to_string(value) + " (" +
             Where({false, dimension_places_[op.value], site.sample, site.scope}) + ")";
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); i++) {
    text += (i == 0 ? ", where " : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

void Signature::Throw(const char *rule, const Site &site, const std::string &message) const {
  throw Error(Kind::kValue, rule,
              "sample " + std::to_string(site.sample) + ", " + Where(site) + ": " + message);
}

void Signature::ThrowFault(const Site &site, Fault fault) const {
  const std::string expr = "\"" + dim(site).text + "\"";
  switch (fault) {
    case Fault::kOverflow:
      Throw("OPABI-S-037", site,
            "expected " + expr + " to fit in a signed 64-bit integer, found an overflow" +
                Names(site) + "; pass smaller values.");
    case Fault::kZeroDivisor:
      Throw("OPABI-S-038", site,
            "expected a divisor other than 0 in " + expr + ", found 0" + Names(site) +
                "; pass values that keep it from 0.");
    default: ThrowArgument(site);
  }
}

void Signature::ThrowArgument(const Site &site) const {
  const std::vector<ExprOp> &expr = dim(site).expr;
  const ExprOp &op = *std::find_if(expr.begin(), expr.end(), [&](const ExprOp &candidate) {
    int64_t value;
    return candidate.code == ExprOp::kArgument &&
           Load(candidate, site.scope, &value) != Fault::kNone;
  });
  const opabi_tensor &arg = site.scope.args[op.value];
  const bool too_large = arg.ndim == 0 && arg.dtype == OPABI_UINT64;
  throw Error(too_large ? Kind::kValue : Kind::kType, "OPABI-S-040",
              "sample " + std::to_string(site.sample) + ", argument '" + argument_names_[op.value] +
                  "': expected an integer of rank 0 that fits in 64 signed bits, found " +
                  ArgumentText(arg) + "; pass one, since " + Where(site) + " is \"" +
                  dim(site).text + "\".");
}

void Signature::ThrowNegative(const Site &site, int64_t extent) const {
  Throw("OPABI-S-039", site,
        "expected an extent of 0 or more, found " + std::to_string(extent) + " from \"" +
            dim(site).text + "\"" + Names(site) + "; pass values that give one.");
}

void Signature::ThrowUnequal(const Site &site, int64_t expected) const {
  Throw("OPABI-S-036", site,
        "expected " + std::to_string(expected) + ", found " +
            std::to_string(site.place.extent(site.scope.inputs)) + Names(site) +
            "; pass a shape that fits \"" + inputs_[site.place.port].text + "\".");
}

/// The extent number `d` of an ellipsis differs.
void Signature::ThrowEllipsis(const Site &site, int d) const {
  const Place &first = ellipsis_places_[dim(site).ellipsis];
  Site differs = site;
  differs.place.axis += d;
  Throw("OPABI-S-036", differs,
        "expected " + std::to_string(site.scope.inputs[first.port].shape[first.axis + d]) +
            ", found " + std::to_string(differs.place.extent(site.scope.inputs)) + ", as \"" +
            dim(site).text + "\" stands for the extents of " + InputLabel(first.port) +
            "; pass a shape that fits \"" + inputs_[site.place.port].text + "\".");
}

}  // namespace opabi
