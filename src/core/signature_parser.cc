// SPDX-License-Identifier: Apache-2.0
#include "core/signature_parser.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/error.h"
#include "core/suggest.h"

namespace opabi {
namespace {

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// The number of `name` in `names`, or -1.
int Find(const std::vector<std::string> &names, std::string_view name) {
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

bool HasName(const std::vector<Port> &ports, const std::string &name) {
  return std::any_of(ports.begin(), ports.end(),
                     [&](const Port &port) { return port.name == name; });
}

bool IsIntegerDtype(uint32_t dtype) {
  constexpr uint32_t kCodeMask = 0xFF, kInt = OPABI_INT8 & kCodeMask,
                     kUint = OPABI_UINT8 & kCodeMask;
  return IsDtype(dtype) && ((dtype & kCodeMask) == kInt || (dtype & kCodeMask) == kUint);
}

}  // namespace

Signature Signature::Parse(std::string_view text, const std::vector<const opabi_arg *> &arguments) {
  return SignatureParser(text, arguments).Parse();
}

SignatureParser::SignatureParser(std::string_view text,
                                 const std::vector<const opabi_arg *> &arguments)
    : Scanner(text), arguments_(arguments) {
  signature_.text_ = text;
  for (const opabi_arg *argument : arguments) signature_.argument_names_.push_back(argument->name);
}

Signature SignatureParser::Parse() {
  ParsePorts(&signature_.inputs_);
  if (AtEnd()) {
    FailExpected("OPABI-S-003", "'->' after the inputs",
                 "write the outputs after '->', as in \"T[n] -> T[n]\"");
  }
  if (!Take("->")) {
    FailExpected("OPABI-S-004", "',' or '->' after an input",
                 "separate ports by ',' and write '->' before the outputs");
  }
  CheckDimensionsBound();
  in_outputs_ = true;
  ParsePorts(&signature_.outputs_);
  if (!AtEnd()) {
    FailExpected("OPABI-S-005", "',' or the end after the outputs",
                 "separate ports by ',', or remove the rest");
  }
  return std::move(signature_);
}

// ---- Ports --------------------------------------------------------------------------------------

void SignatureParser::ParsePorts(std::vector<Port> *ports) {
  if (AtEnd() || LooksAt("->")) return;
  do {
    if (ports->size() == OPABI_MAX_PORTS) {
      Fail("OPABI-S-006", Next(),
           std::string("expected at most 64 ") + (in_outputs_ ? "outputs" : "inputs") +
               ", found one more; join some in a port with one more dimension");
    }
    ports->emplace_back();
    ParsePort(&ports->back());
    if (!in_outputs_) BindDims(ports->back(), static_cast<int>(ports->size()) - 1);
  } while (Take(","));
}

void SignatureParser::ParsePort(Port *port) {
  const size_t begin = Next();
  ParsePortName(port);
  ParseType(port);
  if (Take("[")) ParseDims(port);
  if (Take("@")) ParseLayout(port);
  port->text = TextFrom(begin);
}

void SignatureParser::ParsePortName(Port *port) {
  const size_t before = at(), begin = Next();
  const std::string name = TakeName();
  if (name.empty() || !Take(":")) {
    BackTo(before);  // it was the type
    return;
  }
  const bool argument = Find(signature_.argument_names_, name) >= 0;
  if (argument || HasName(signature_.inputs_, name) || HasName(signature_.outputs_, name)) {
    Fail("OPABI-S-007", begin,
         "expected a name of its own for this port, found " + Quoted(name) + ", which " +
             (argument ? "an argument" : "another port") + " has; rename one of them");
  }
  port->name = name;
}

void SignatureParser::ParseType(Port *port) {
  const size_t begin = Next();
  if (Take("?")) {
    AllowInOutputs("?", begin);
    port->open_dtype = signature_.needs_setup_ = true;
    return;
  }
  const std::string name = TakeName();
  if (name.empty()) {
    FailExpected("OPABI-S-004", "a type such as uint8 or T", "write one for each port");
  }
  port->dtype = DtypeFromName(name);
  if (port->dtype != OPABI_DTYPE_ANY) return;

  std::string lower = name;
  for (char &c : lower) c = static_cast<char>(IsUpper(c) ? c - 'A' + 'a' : c);
  const bool variable = IsUpper(name[0]) && DtypeFromName(lower) == OPABI_DTYPE_ANY;
  if (!variable) FailDtype(name, begin);
  port->type_variable = Find(signature_.type_variables_, name);
  if (port->type_variable >= 0) return;
  if (in_outputs_) {
    Fail("OPABI-S-009", begin,
         "expected a type variable that is an input's type, found " + Quoted(name) +
             "; give an input this type, or write a dtype or '?'");
  }
  port->type_variable = static_cast<int>(signature_.type_variables_.size());
  signature_.type_variables_.push_back(name);
}

void SignatureParser::FailDtype(const std::string &name, size_t at) const {
  const std::string meant = SuggestDtype(name);
  Fail("OPABI-S-008", at,
       "expected a dtype or a type variable, found " + Quoted(name) + "; write " +
           (meant.empty() ? "one of bool, uint8 to uint64, int8 to int64, float16 to float64"
                          : meant) +
           ", or a name with a capital letter, such as T, for any dtype");
}

void SignatureParser::ParseLayout(Port *port) {
  const size_t begin = Next();
  port->layout = TakeLayout();
  if (LooksAt("[")) {
    FailExpected("OPABI-S-004", "',' or '->' after a layout",
                 "write it after the brackets, as in T[h,w,c]@HWC");
  }
  if (port->layout.empty() || !(AtEnd() || LooksAt(",") || LooksAt("->") || at() != Next())) {
    FailExpected("OPABI-S-019", "letters and digits after '@'",
                 "write one for each dimension, as in @HWC");
  }
  if (port->layout.size() >= OPABI_LAYOUT_SIZE) {
    Fail("OPABI-S-019", begin,
         "expected a layout of at most 15 characters, found " +
             std::to_string(port->layout.size()) + "; write one for each dimension, as in @HWC");
  }
  CheckLayout(*port, begin);
}

void SignatureParser::CheckLayout(const Port &port, size_t at) const {
  const bool ellipsis = port.ellipsis_at() >= 0;
  const size_t expected = port.dims.size() - ellipsis, found = port.layout.size();
  if (found == expected || (ellipsis && found > expected)) return;
  Fail("OPABI-S-020", at,
       std::string("expected a layout of length ") + std::to_string(expected) +
           (ellipsis ? " or more" : "") + ", found " + std::to_string(found) +
           "; write one character for each dimension");
}

// ---- Dimensions ---------------------------------------------------------------------------------

void SignatureParser::ParseDims(Port *port) {
  if (Take("]")) return;
  do {
    const size_t begin = Next();
    const bool ellipsis = LooksAt("..."), second = port->ellipsis_at() >= 0;
    if (port->open_rank()) FailAccompanied(begin);
    if (ellipsis && second) {
      Fail("OPABI-S-011", begin,
           "expected at most one ellipsis in a port, found another; name the other extents");
    }
    if (!ellipsis && port->dims.size() - second == OPABI_MAX_NDIM) {
      Fail("OPABI-S-013", begin,
           "expected at most 15 dimensions in a port, found one more; join some of them");
    }
    port->dims.emplace_back();
    ParseDim(&port->dims.back());
    port->dims.back().text = TextFrom(begin);
    if (port->open_rank() && port->dims.size() > 1) FailAccompanied(begin);
  } while (Take(","));
  if (!Take("]")) {
    FailExpected("OPABI-S-004", "',' or ']' after an extent",
                 "separate extents by ',' and join the parts of one by + - * //");
  }
}

void SignatureParser::FailAccompanied(size_t at) const {
  Fail("OPABI-S-022", at,
       "expected '...?' to stand alone, found another extent beside it; setup gives the whole "
       "shape, so write '...?' or one '?' for each extent");
}

void SignatureParser::ParseDim(Dim *dim) {
  const size_t begin = Next();
  if (Take("...")) return ParseEllipsis(dim, begin);
  if (Take("?")) {
    AllowInOutputs("?", begin);
    dim->kind = Dim::kOpen;
    signature_.needs_setup_ = true;
    return;
  }
  dim->kind = Dim::kExpr;
  if (Take("<=")) {
    AllowInOutputs("<=", begin);
    signature_.bounded_ = true;
    dim->kind = Dim::kBounded;
    if (Take("?")) {
      dim->kind = Dim::kBoundedOpen;
      signature_.needs_setup_ = true;
      return;
    }
  }
  const size_t expr = Next();
  ParseExpr(&dim->expr, 0);
  if (dim->expr.size() == 1 && dim->expr[0].code == ExprOp::kConstant && dim->expr[0].value < 0) {
    Fail("OPABI-S-021", expr,
         "expected an extent of 0 or more, found " + std::to_string(dim->expr[0].value) +
             "; write a larger one");
  }
}

void SignatureParser::ParseEllipsis(Dim *dim, size_t begin) {
  std::string name = "...";
  if (Take("?")) {
    AllowInOutputs("...?", begin);
    dim->kind = Dim::kOpenRank;
    signature_.needs_setup_ = true;
    return;
  }
  if (AdjoinsName()) name += TakeName();
  dim->kind = Dim::kEllipsis;
  dim->ellipsis = Find(signature_.ellipses_, name);
  if (dim->ellipsis >= 0) return;
  if (in_outputs_) {
    Fail("OPABI-S-012", begin,
         "expected an ellipsis that stands in an input, found " + Quoted(name) +
             "; write it in an input too, or '...?' for a rank that setup gives");
  }
  dim->ellipsis = static_cast<int>(signature_.ellipses_.size());
  signature_.ellipses_.push_back(name);
  signature_.ellipsis_places_.emplace_back();
}

/// Gives the names and ellipses that first stand in this input their places.
void SignatureParser::BindDims(const Port &input, int number) {
  const int ellipsis_at = input.ellipsis_at(), n_dims = static_cast<int>(input.dims.size());
  for (int i = 0; i < n_dims; i++) {
    const Dim &dim = input.dims[i];
    Place *first = nullptr;
    if (dim.kind == Dim::kEllipsis) {
      first = &signature_.ellipsis_places_[dim.ellipsis];
    } else if (dim.expr.size() == 1 && dim.expr[0].code == ExprOp::kDimension) {
      first = &signature_.dimension_places_[dim.expr[0].value];
    }
    const Place place{number, i, ellipsis_at >= 0 && i > ellipsis_at ? i - n_dims : i};
    if (first && first->port < 0) {
      *first = place;
    } else {
      signature_.checks_.push_back(place);
    }
  }
}

void SignatureParser::CheckDimensionsBound() const {
  for (size_t i = 0; i < first_uses_.size(); i++) {
    if (signature_.dimension_places_[i].port >= 0) continue;
    const std::string name = Quoted(signature_.dimensions_[i]);
    Fail("OPABI-S-017", first_uses_[i],
         "expected a name that stands alone as an extent of an input or is an argument's, found " +
             name + "; write " + name + " alone in an input, or declare an integer argument " +
             name + " of rank 0");
  }
}

// ---- Expressions --------------------------------------------------------------------------------

void SignatureParser::ParseExpr(Expr *expr, int nesting) {
  ParseTerm(expr, nesting);
  while (true) {
    ExprOp::Code code = ExprOp::kAdd;
    if (!Take("+")) {
      if (LooksAt("->") || !Take("-")) return;
      code = ExprOp::kSub;
    }
    const size_t right = Next();
    ParseTerm(expr, nesting);
    Emit(code, expr, right);
  }
}

void SignatureParser::ParseTerm(Expr *expr, int nesting) {
  ParseFactor(expr, nesting);
  while (true) {
    ExprOp::Code code = ExprOp::kMul;
    if (!Take("*")) {
      if (!Take("//")) return;
      code = ExprOp::kFloorDiv;
    }
    const size_t right = Next();
    ParseFactor(expr, nesting);
    Emit(code, expr, right);
  }
}

void SignatureParser::ParseFactor(Expr *expr, int nesting) {
  const size_t begin = Next();
  if (LooksAtDigit()) {
    expr->push_back({ExprOp::kConstant, ParseInteger()});
  } else if (LooksAtName()) {
    expr->push_back(ParseNameInExtent());
  } else if (Take("(")) {
    if (nesting == kMaxNesting) {
      Fail("OPABI-S-016", begin,
           "expected parentheses nested at most 30 deep, found one more; multiply the expression "
           "out");
    }
    ParseExpr(expr, nesting + 1);
    if (!Take(")"))
      FailExpected("OPABI-S-004", "')'", "close the parenthesis, or join its parts by + - * //");
  } else {
    FailExpected("OPABI-S-004", "an integer, a name or '(' in an extent",
                 "write one such as h, 3 or 2*(h+1)");
  }
}

int64_t SignatureParser::ParseInteger() {
  const size_t begin = Next();
  int64_t value = 0;
  for (char digit : TakeDigits()) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, digit - '0', &value)) {
      Fail("OPABI-S-014", begin,
           "expected an integer of at most 9223372036854775807, found a larger one; write a "
           "smaller one");
    }
  }
  return value;
}

ExprOp SignatureParser::ParseNameInExtent() {
  const size_t begin = Next();
  const std::string name = TakeName();
  const int argument = Find(signature_.argument_names_, name);
  if (argument >= 0) {
    CheckArgument(*arguments_[argument], begin);
    signature_.uses_arguments_ = true;
    return {ExprOp::kArgument, argument};
  }
  int number = Find(signature_.dimensions_, name);
  if (number < 0) {
    number = static_cast<int>(first_uses_.size());
    first_uses_.push_back(begin);
    signature_.dimensions_.push_back(name);
    signature_.dimension_places_.emplace_back();
    if (in_outputs_) CheckDimensionsBound();
  }
  return {ExprOp::kDimension, number};
}

void SignatureParser::CheckArgument(const opabi_arg &argument, size_t at) const {
  const bool integer = argument.dtype == OPABI_DTYPE_ANY || IsIntegerDtype(argument.dtype);
  const bool scalar = argument.ndim == OPABI_NDIM_ANY || argument.ndim == 0;
  if (integer && scalar) return;
  Fail(
      "OPABI-S-018", at,
      "expected an integer argument of rank 0, found " + Quoted(argument.name) + ", declared " +
          DtypeName(argument.dtype) + " of " +
          (argument.ndim == OPABI_NDIM_ANY ? "any rank" : "rank " + std::to_string(argument.ndim)) +
          "; declare it int64 of rank 0, or give the dimension another name");
}

/// Appends an operator; constants are folded, so that what cannot be is found here and not in a
/// batch.
void SignatureParser::Emit(ExprOp::Code code, Expr *expr, size_t right) {
  const ExprOp last = expr->back(), before = (*expr)[expr->size() - 2];
  if (code == ExprOp::kFloorDiv && last.code == ExprOp::kConstant && last.value == 0) {
    Fail("OPABI-S-015", right, "expected a divisor other than 0, found 0; write another");
  }
  if (last.code != ExprOp::kConstant || before.code != ExprOp::kConstant) {
    expr->push_back({code, 0});
    return;
  }
  expr->pop_back();
  if (Apply(code, before.value, last.value, &expr->back().value) != Fault::kNone) {
    Fail("OPABI-S-014", right,
         "expected constants whose result fits in a signed 64-bit integer, found an overflow; "
         "write smaller ones");
  }
}

void SignatureParser::AllowInOutputs(const char *what, size_t at) const {
  if (in_outputs_) return;
  Fail(
      "OPABI-S-010", at,
      "expected an input's type or extent, found " + Quoted(what) +
          ", which only outputs may have; write a name for an extent, a capital letter for a type");
}

}  // namespace opabi
