// SPDX-License-Identifier: Apache-2.0
// A kernel's signature: parsed once, then bound to the types and shapes of each batch.
//
//   signature := ports "->" ports
//   ports     := [ port { "," port } ]
//   port      := [ NAME ":" ] type [ "[" [ dim { "," dim } ] "]" ] [ "@" LAYOUT ]
//   type      := "uint8" | ... | VARIABLE (a capital letter first) | "?" (outputs: set by setup)
//   dim       := expr | "..." [ NAME ]
//              | "...?" | "?" | "<=" expr | "<=" "?"                            in outputs only
//   expr      := term { ("+" | "-") term },  term := factor { ("*" | "//") factor }
//   factor    := INTEGER | NAME | "(" expr ")"
//
// A port without brackets has rank 0. White space may stand between all tokens but "..." and its
// NAME. A name in an expression is an argument of the kernel, if there is one of that name, else a
// dimension: it has the extent where it first stands alone in an input. The rules are listed in
// signature.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/extent.h"
#include "opabi/opabi.h"

namespace opabi {

struct Dim {
  enum Kind : uint8_t {
    kExpr,         // h, 2*h, 3
    kEllipsis,     // ... or ...name: any number of extents
    kOpen,         // ?  set by setup
    kOpenRank,     // ...?  rank and extents set by setup
    kBounded,      // <=expr  actual extent written by run
    kBoundedOpen,  // <=?  bound set by setup, actual extent written by run
  };
  Kind kind;
  int ellipsis = 0;          // kEllipsis: its number
  std::vector<ExprOp> expr;  // kExpr, kBounded
  std::string text;          // as written, for messages
};

struct Port {
  std::string name;         // or ""
  uint32_t dtype = 0;       // or OPABI_DTYPE_ANY: a variable or open
  int type_variable = -1;   // its number
  bool open_dtype = false;  // "?": set by setup
  std::vector<Dim> dims;
  std::string layout;  // or ""
  std::string text;    // as written, for messages

  int ellipsis_at() const;  // index in dims of kEllipsis or kOpenRank, or -1
  bool open_rank() const;   // has kOpenRank
  bool bounded() const;     // has kBounded or kBoundedOpen
};

/// What a batch's types and ranks leave fixed for all its samples.
struct BoundTypes {
  std::vector<uint32_t> type_variables;  // OPABI_DTYPE_ANY while unbound
  std::vector<int> ellipsis_ranks;       // -1 while unbound
  std::vector<uint32_t> out_dtype;       // or OPABI_DTYPE_UNSET
  std::vector<int32_t> out_ndim;         // or OPABI_UNSET
};

class Signature {
 public:
  /// `arguments` are the declared arguments; only integer ones of rank 0 may be extents. Throws
  /// Error (kValue, OPABI-S-...) whose message shows the signature with a caret under the place.
  static Signature Parse(std::string_view text,
                         const std::vector<const opabi_arg *> &arguments = {});

  const std::string &text() const { return text_; }
  const std::vector<Port> &inputs() const { return inputs_; }
  const std::vector<Port> &outputs() const { return outputs_; }
  bool needs_setup() const { return needs_setup_; }        // some "?" stands in it
  bool bounded() const { return bounded_; }                // some "<=" stands in it
  bool uses_arguments() const { return uses_arguments_; }  // some extent has one

  /// Checks the inputs' dtypes and ranks (n_in each) and derives the outputs'. Throws Error
  /// (kType).
  BoundTypes BindTypes(const uint32_t *in_dtype, const int32_t *in_ndim) const;

  /// Checks one sample's input extents and writes its outputs' extents:
  /// out_shape[port * max_ndim + d] for d below the port's rank; OPABI_UNSET where setup must set
  /// it (the whole row if the rank is open), bounds where bounded. `inputs` has n_in tensors of the
  /// ranks that `types` was made from, `args` as many as were declared; max_ndim is at least each
  /// out_ndim. Throws Error (kValue, or kType for an argument that is no integer) that names
  /// `sample`. No allocation on the way that succeeds.
  void InferShapes(const BoundTypes &types, const opabi_tensor *inputs, const opabi_tensor *args,
                   int64_t sample, int32_t max_ndim, int64_t *out_shape) const;

  /// "input 0 'image'": for messages.
  std::string InputLabel(int port) const;
  std::string OutputLabel(int port) const;

 private:
  friend class SignatureParser;

  void BindType(int port, uint32_t dtype, BoundTypes *types) const;
  void BindRank(int port, int32_t ndim, BoundTypes *types) const;
  int32_t OutputRank(int port, const BoundTypes &types) const;
  void CheckInputExtents(const BoundTypes &types, const Scope &scope, int64_t sample) const;

  /// A dimension of one sample that has no right extent. The messages are in signature_errors.cc.
  struct Site {
    bool output;
    Place place;
    int64_t sample;
    const Scope &scope;
  };
  const Dim &dim(const Site &site) const;
  std::string Where(const Site &site) const;
  std::string Names(const Site &site) const;
  [[noreturn, gnu::cold]] void Throw(const char *rule, const Site &site,
                                     const std::string &message) const;
  [[noreturn, gnu::cold]] void ThrowFault(const Site &site, Fault fault) const;
  [[noreturn, gnu::cold]] void ThrowArgument(const Site &site) const;
  [[noreturn, gnu::cold]] void ThrowNegative(const Site &site, int64_t extent) const;
  [[noreturn, gnu::cold]] void ThrowUnequal(const Site &site, int64_t expected) const;
  [[noreturn, gnu::cold]] void ThrowEllipsis(const Site &site, int d) const;

  std::string text_;
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> type_variables_, dimensions_, ellipses_, argument_names_;
  std::vector<Place> dimension_places_, ellipsis_places_;  // by the numbers of their names
  std::vector<Place> checks_;                              // all other dimensions of inputs
  bool needs_setup_ = false, bounded_ = false, uses_arguments_ = false;
};

}  // namespace opabi
