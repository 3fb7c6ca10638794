// SPDX-License-Identifier: Apache-2.0
// A recursive-descent parser of signatures; it serves Signature::Parse alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/scanner.h"
#include "core/signature.h"

namespace opabi {

class SignatureParser : Scanner {
 public:
  SignatureParser(std::string_view text, const std::vector<const opabi_arg *> &arguments);
  Signature Parse();

 private:
  using Expr = std::vector<ExprOp>;

  // One method for each rule of the grammar, in its order.
  void ParsePorts(std::vector<Port> *ports);
  void ParsePort(Port *port);
  void ParsePortName(Port *port);
  void ParseType(Port *port);
  void ParseDims(Port *port);
  void ParseDim(Dim *dim);
  void ParseEllipsis(Dim *dim, size_t begin);
  void ParseLayout(Port *port);
  void ParseExpr(Expr *expr, int nesting);
  void ParseTerm(Expr *expr, int nesting);
  void ParseFactor(Expr *expr, int nesting);
  int64_t ParseInteger();
  ExprOp ParseNameInExtent();

  void CheckLayout(const Port &port, size_t at) const;
  void CheckArgument(const opabi_arg &argument, size_t at) const;
  void CheckDimensionsBound() const;
  void BindDims(const Port &input, int number);
  void Emit(ExprOp::Code code, Expr *expr, size_t right);
  void AllowInOutputs(const char *what, size_t at) const;
  [[noreturn]] void FailAccompanied(size_t at) const;
  [[noreturn]] void FailDtype(const std::string &name, size_t at) const;

  const std::vector<const opabi_arg *> &arguments_;
  bool in_outputs_ = false;
  std::vector<size_t> first_uses_;  // of the dimension variables
  Signature signature_;
};

}  // namespace opabi
