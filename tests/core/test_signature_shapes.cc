// SPDX-License-Identifier: Apache-2.0
// Signatures bound to what arrives: dtypes and ranks first, then each sample's extents.
#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "allocations.h"
#include "core/dtype.h"
#include "core/signature.h"
#include "thrown.h"

namespace opabi {
namespace {

using Shape = std::vector<int64_t>;

/// A tensor of an input, or a scalar of an argument.
struct Tensor {
  Shape shape;
  uint32_t dtype = OPABI_UINT8;
  uint64_t bits = 0;  // an argument's value

  opabi_tensor view() const {
    return {const_cast<uint64_t *>(&bits),
            OPABI_CPU,
            0,
            static_cast<int32_t>(shape.size()),
            dtype,
            shape.data(),
            nullptr,
            0};
  }
};

Tensor Scalar(int64_t value, uint32_t dtype = OPABI_INT64) {
  return {
      {}, dtype, static_cast<uint64_t>(value)};  // little-endian, so that narrow types find theirs
}

std::vector<opabi_tensor> Views(const std::vector<Tensor> &tensors) {
  std::vector<opabi_tensor> views;
  for (const Tensor &tensor : tensors) views.push_back(tensor.view());
  return views;
}

BoundTypes Bind(const Signature &signature, const std::vector<Tensor> &inputs) {
  std::vector<uint32_t> dtypes;
  std::vector<int32_t> ndims;
  for (const Tensor &input : inputs) {
    dtypes.push_back(input.dtype);
    ndims.push_back(static_cast<int32_t>(input.shape.size()));
  }
  REQUIRE(inputs.size() == signature.inputs().size());
  return signature.BindTypes(dtypes.data(), ndims.data());
}

/// The outputs' shapes for sample 3; an open rank gives one row of OPABI_UNSET.
std::vector<Shape> Infer(const Signature &signature, const std::vector<Tensor> &inputs,
                         const std::vector<Tensor> &args = {}) {
  const BoundTypes types = Bind(signature, inputs);
  const size_t n_out = signature.outputs().size();
  std::vector<int64_t> rows(n_out * OPABI_MAX_NDIM + 1, 77);
  signature.InferShapes(types, Views(inputs).data(), Views(args).data(), 3, OPABI_MAX_NDIM,
                        rows.data());
  std::vector<Shape> shapes;
  for (size_t port = 0; port < n_out; port++) {
    const int32_t ndim = types.out_ndim[port];
    const auto row = rows.begin() + static_cast<int64_t>(port) * OPABI_MAX_NDIM;
    shapes.emplace_back(row, row + (ndim == OPABI_UNSET ? OPABI_MAX_NDIM : ndim));
  }
  CHECK(rows.back() == 77);
  return shapes;
}

std::vector<Shape> Infer(const std::string &text, const std::vector<Shape> &inputs) {
  std::vector<Tensor> tensors;
  for (const Shape &shape : inputs) tensors.push_back({shape});
  return Infer(Signature::Parse(text), tensors);
}

const opabi_arg kN{"n", nullptr, OPABI_DTYPE_ANY, OPABI_NDIM_ANY, nullptr, 0};

std::vector<Shape> InferWithN(const std::string &text, const std::vector<Tensor> &inputs,
                              const Tensor &n) {
  return Infer(Signature::Parse(text, {&kN}), inputs, {n});
}

// ---- Types and ranks ----------------------------------------------------------------------------

TEST_CASE("test_bind_outputs_take_the_variables_dtypes_and_ranks") {
  const Signature signature =
      Signature::Parse("T[h,...], U[k] -> U[...], T[h,k,...], float32, ?[...?], ?[h]");
  const BoundTypes types = Bind(signature, {{{4, 5, 6}, OPABI_INT16}, {{2}, OPABI_BOOL}});
  CHECK(types.out_dtype == std::vector<uint32_t>{OPABI_BOOL, OPABI_INT16, OPABI_FLOAT32,
                                                 OPABI_DTYPE_UNSET, OPABI_DTYPE_UNSET});
  CHECK(types.out_ndim == std::vector<int32_t>{2, 4, 0, OPABI_UNSET, 1});
}

TEST_CASE("test_bind_other_dtype_than_declared_fails") {
  const Thrown thrown = ThrownBy(
      [] { Bind(Signature::Parse("image: uint8[h] -> uint8[h]"), {{{4}, OPABI_FLOAT32}}); });
  CHECK(thrown.kind == Kind::kType);
  CHECK(thrown.rule == "OPABI-S-031");
  CHECK_SAYS(thrown, "input 0 'image': expected uint8, found float32");
}

TEST_CASE("test_bind_dtype_that_is_none_under_a_variable_fails") {
  const Thrown thrown = ThrownBy([] { Bind(Signature::Parse("T -> T"), {{{}, 0x00014005}}); });
  CHECK(thrown.rule == "OPABI-S-031");
  CHECK_SAYS(thrown, "found dtype 0x00014005");
  CHECK(ThrownBy([] { Bind(Signature::Parse("T -> T"), {{{}, 0}}); }).rule == "OPABI-S-031");
}

TEST_CASE("test_bind_two_dtypes_for_one_variable_fails") {
  const Thrown thrown = ThrownBy([] {
    Bind(Signature::Parse("uint8, a: T, T -> T"), {{{}}, {{}, OPABI_INT8}, {{}, OPABI_INT16}});
  });
  CHECK(thrown.kind == Kind::kType);
  CHECK(thrown.rule == "OPABI-S-032");
  CHECK_SAYS(thrown, "input 2: expected int8, which T is by input 1 'a', found int16");
}

TEST_CASE("test_bind_other_rank_than_declared_fails") {
  const auto rank_of = [](const std::string &text, size_t ndim) {
    return ThrownBy([&] { Bind(Signature::Parse(text), {{Shape(ndim, 1)}}); });
  };
  CHECK_SAYS(rank_of("a: T[h,w] -> T", 3), "[OPABI-S-033] input 0 'a': expected rank 2, found 3");
  CHECK_SAYS(rank_of("T -> T", 1), "[OPABI-S-033] input 0: expected rank 0, found 1");
  CHECK_SAYS(rank_of("T[h,...,w] -> T", 1),
             "[OPABI-S-033] input 0: expected rank 2 or more, found 1");
  CHECK_SAYS(rank_of("T[...] -> T", 16), "[OPABI-S-033] input 0: expected rank 0 to 15, found 16");
  CHECK_SAYS(rank_of("T[...]@HWC -> T", 2),
             "[OPABI-S-033] input 0: expected rank 3, the length of its layout");
  CHECK(rank_of("T[...] -> T", 16).kind == Kind::kType);
}

TEST_CASE("test_bind_negative_rank_fails") {
  const Signature signature = Signature::Parse("T[...] -> T");
  const uint32_t dtype = OPABI_UINT8;
  const int32_t ndim = -1;
  CHECK(ThrownBy([&] { signature.BindTypes(&dtype, &ndim); }).rule == "OPABI-S-033");
}

TEST_CASE("test_bind_ellipsis_of_two_lengths_fails") {
  const Thrown thrown =
      ThrownBy([] { Bind(Signature::Parse("a: T[...], T[h,...] -> T"), {{{1, 2}}, {{1, 2}}}); });
  CHECK(thrown.kind == Kind::kType);
  CHECK(thrown.rule == "OPABI-S-034");
  CHECK_SAYS(thrown,
             "input 1: expected rank 3, as \"...\" stands for 2 extents in input 0 'a', found 2");
  CHECK(Bind(Signature::Parse("T[...a], T[h,...b] -> T[...b]"), {{{1, 2}}, {{1}}}).out_ndim[0] ==
        0);
}

TEST_CASE("test_bind_output_rank_past_15_or_its_layout_fails") {
  const auto bind = [](const std::string &text, size_t ndim) {
    return [=] { Bind(Signature::Parse(text), {{Shape(ndim, 1)}}); };
  };
  CHECK_NOTHROW(bind("T[...] -> T[1,...]", 14)());
  const Thrown thrown = ThrownBy(bind("T[...] -> b: T[1,...]", 15));
  CHECK(thrown.kind == Kind::kType);
  CHECK_SAYS(thrown, "[OPABI-S-035] output 0 'b': expected rank 15 at most, found 16");
  CHECK_NOTHROW(bind("T[...] -> T[...]@HW", 2)());
  CHECK_SAYS(ThrownBy(bind("T[...] -> T[...]@HW", 1)),
             "[OPABI-S-035] output 0: expected rank 2, the length");
}

// ---- Extents ------------------------------------------------------------------------------------

TEST_CASE("test_infer_names_constants_and_expressions_give_the_outputs_extents") {
  using Shapes = std::vector<Shape>;
  CHECK(Infer("T[h,w,c] -> T[2*h,w//2,c]", {{3, 5, 4}}) == Shapes{{6, 2, 4}});
  CHECK(Infer("T[h,w] -> T[w,h], T[h*w], T, T[7]", {{3, 5}}) == Shapes{{5, 3}, {15}, {}, {7}});
  CHECK(Infer("T[a], T[b] -> T[a+b]", {{2}, {4}}) == Shapes{{6}});
  CHECK(Infer("T[h] -> T[10-(h-2)*3]", {{3}}) == Shapes{{7}});
  CHECK(Infer("T[h] -> T[h-1-1], T[h//2//2], T[h-(1-1)]", {{9}}) == Shapes{{7}, {2}, {9}});
  CHECK(Infer("-> uint8[2,3]", {}) == Shapes{{2, 3}});
  CHECK(Infer("T[h] ->", {{3}}).empty());
}

TEST_CASE("test_infer_zero_extents_are_legal") {
  CHECK(Infer("T[h,w] -> T[h,2*w,h//3]", {{0, 4}}) == std::vector<Shape>{{0, 8, 0}});
  CHECK(Infer("T[...] -> T[...,0]", {{0, 4}}) == std::vector<Shape>{{0, 4, 0}});
}

TEST_CASE("test_infer_ellipsis_stands_anywhere") {
  using Shapes = std::vector<Shape>;
  CHECK(Infer("T[...] -> T[...]", {{}}) == Shapes{{}});
  CHECK(Infer("T[...] -> T[...]", {{4, 5, 6}}) == Shapes{{4, 5, 6}});
  CHECK(Infer("T[h,...,c] -> T[c,...,h]", {{4, 5, 6, 7}}) == Shapes{{7, 5, 6, 4}});
  CHECK(Infer("T[h,...,c] -> T[c,...,h]", {{4, 7}}) == Shapes{{7, 4}});
  CHECK(Infer("T[...,a,b] -> T[a*b,...]", {{2, 3, 4, 5}}) == Shapes{{20, 2, 3}});
  CHECK(Infer("T[...x,a], T[b,...y] -> T[...y], T[b,...x]", {{2, 3, 4}, {5, 6}}) ==
        Shapes{{6}, {5, 2, 3}});
  CHECK(Infer("T[...,c], T[c,...] -> T[...]", {{2, 3, 9}, {9, 2, 3}}) == Shapes{{2, 3}});
}

TEST_CASE("test_infer_open_extents_are_left_to_setup_and_bounds_are_given") {
  using Shapes = std::vector<Shape>;
  CHECK(Infer("T[h] -> T[?,h], T[<=2*h], T[<=?]", {{4}}) ==
        Shapes{{OPABI_UNSET, 4}, {8}, {OPABI_UNSET}});
  CHECK(Infer("T[h] -> T[...?], T[h]", {{4}}) == Shapes{Shape(OPABI_MAX_NDIM, OPABI_UNSET), {4}});
}

TEST_CASE("test_infer_name_is_bound_where_it_first_stands_alone_in_any_input") {
  CHECK(Infer("T[2*n], T[n,n+1], T[n] -> T[n]", {{8}, {4, 5}, {4}}) == std::vector<Shape>{{4}});
}

TEST_CASE("test_infer_unequal_extents_fail_and_say_where_the_name_got_its_value") {
  Thrown thrown = ThrownBy([] { Infer("image: T[h,w], mask: U[h,w] -> T", {{4, 5}, {4, 6}}); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK(thrown.rule == "OPABI-S-036");
  CHECK_SAYS(thrown,
             "sample 3, input 1 'mask', dimension 1: expected 5, found 6, where w = 5 (input 0 "
             "'image', dimension 1); pass a shape that fits \"mask: U[h,w]\"");
  thrown = ThrownBy([] { Infer("T[2*n+m], a: T[..., n], b: T[m] -> T", {{8}, {9, 4}, {1}}); });
  CHECK_SAYS(
      thrown,
      "sample 3, input 0, dimension 0: expected 9, found 8, where n = 4 (input 1 'a', dimension "
      "1) and m = 1 (input 2 'b', dimension 0)");
  thrown = ThrownBy([] { Infer("T[h,...,3] -> T", {{3, 1, 4}}); });
  CHECK_SAYS(thrown, "sample 3, input 0, dimension 2: expected 3, found 4; pass a shape");
}

TEST_CASE("test_infer_unequal_extents_of_an_ellipsis_fail") {
  const Thrown thrown =
      ThrownBy([] { Infer("a: T[...], b: T[h,...] -> T", {{4, 5, 6}, {1, 4, 7, 6}}); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK(thrown.rule == "OPABI-S-036");
  CHECK_SAYS(thrown,
             "sample 3, input 1 'b', dimension 2: expected 5, found 7, as \"...\" stands for the "
             "extents of input 0 'a'");
}

TEST_CASE("test_infer_overflow_fails") {
  const auto overflows = [](const std::string &extent, int64_t h) {
    const Thrown thrown =
        ThrownBy([&] { Infer("image: T[h] -> big: T[1," + extent + "]", {{h}}); });
    CHECK(thrown.kind == Kind::kValue);
    CHECK(thrown.rule == "OPABI-S-037");
    CHECK_SAYS(thrown, "sample 3, output 0 'big', dimension 1: ");
    CHECK_SAYS(thrown, "\"" + extent + "\"");
    CHECK_SAYS(thrown, "h = " + std::to_string(h) + " (input 0 'image', dimension 0)");
  };
  overflows("2*h", int64_t{1} << 62);
  overflows("h+h", INT64_MAX);
  overflows("0-h-h", INT64_MAX);
  overflows("(0-h-1)//(h-h-1)", INT64_MAX);
  overflows("0*(h*h)", int64_t{1} << 32);
  CHECK(Infer("T[h] -> T[h+0]", {{INT64_MAX}})[0] == Shape{INT64_MAX});
}

TEST_CASE("test_infer_division_by_zero_fails") {
  const Thrown thrown = ThrownBy([] { Infer("T[h,w] -> T[w//(h-4)]", {{4, 6}}); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK(thrown.rule == "OPABI-S-038");
  CHECK_SAYS(
      thrown,
      "sample 3, output 0, dimension 0: expected a divisor other than 0 in \"w//(h-4)\", found 0");
  CHECK_SAYS(thrown, "where w = 6 (input 0, dimension 1) and h = 4 (input 0, dimension 0)");
}

TEST_CASE("test_infer_division_rounds_down") {
  CHECK(Infer("T[h] -> T[10+(h-7)//2]", {{4}}) == std::vector<Shape>{{8}});   // -3 // 2 == -2
  CHECK(Infer("T[h] -> T[10+h//(h-6)]", {{4}}) == std::vector<Shape>{{8}});   // 4 // -2 == -2
  CHECK(Infer("T[h] -> T[10+h//(h-7)]", {{4}}) == std::vector<Shape>{{8}});   // 4 // -3 == -2
  CHECK(Infer("T[h] -> T[(h-7)//(h-6)]", {{4}}) == std::vector<Shape>{{1}});  // -3 // -2 == 1
  CHECK(Infer("T[h] -> T[10+h//(h-5)]", {{4}}) == std::vector<Shape>{{6}});   // 4 // -1 == -4
}

TEST_CASE("test_infer_negative_extent_fails") {
  Thrown thrown = ThrownBy([] { Infer("T[h] -> T[h-3]", {{2}}); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK(thrown.rule == "OPABI-S-039");
  CHECK_SAYS(
      thrown,
      "sample 3, output 0, dimension 0: expected an extent of 0 or more, found -1 from \"h-3\", "
      "where h = 2 (input 0, dimension 0)");
  thrown = ThrownBy([] { Infer("T[h] -> T[<=h-3]", {{2}}); });
  CHECK_SAYS(thrown, "[OPABI-S-039]");
  CHECK_SAYS(thrown, "\"<=h-3\"");
}

TEST_CASE("test_infer_fault_in_an_inputs_expression_names_the_input") {
  const Thrown thrown = ThrownBy([] { Infer("T[h], b: T[4//h] -> T", {{0}, {1}}); });
  CHECK_SAYS(thrown, "[OPABI-S-038] sample 3, input 1 'b', dimension 0");
}

TEST_CASE("test_infer_arguments_of_every_integer_dtype_are_extents") {
  for (uint32_t dtype : {OPABI_INT8, OPABI_INT16, OPABI_INT32, OPABI_INT64, OPABI_UINT8,
                         OPABI_UINT16, OPABI_UINT32, OPABI_UINT64}) {
    CAPTURE(DtypeName(dtype));
    // Bits above the narrow types' must not be read.
    Tensor n{{}, dtype, 0x5A};
    const int64_t size = DtypeSize(dtype);
    if (size < 8) n.bits |= ~uint64_t{0} << 8 * size;
    CHECK(InferWithN("-> uint8[n,2*n]", {}, n) == std::vector<Shape>{{0x5A, 0xB4}});
  }
  CHECK(InferWithN("-> uint8[3-n]", {}, Scalar(-2, OPABI_INT8)) == std::vector<Shape>{{5}});
  CHECK(InferWithN("-> uint8[n]", {}, Scalar(200, OPABI_UINT8)) == std::vector<Shape>{{200}});
}

TEST_CASE("test_infer_argument_without_alignment_is_read") {
  alignas(8) char bytes[9] = {};
  const int64_t value = 11;
  std::memcpy(bytes + 1, &value, sizeof value);
  const opabi_tensor arg{bytes + 1, OPABI_CPU, 0, 0, OPABI_INT64, nullptr, nullptr, 0};
  const Signature signature = Signature::Parse("-> uint8[n]", {&kN});
  int64_t extent = 0;
  signature.InferShapes(signature.BindTypes(nullptr, nullptr), nullptr, &arg, 0, 1, &extent);
  CHECK(extent == 11);
}

TEST_CASE("test_infer_argument_wins_over_a_dimension_of_its_name") {
  CHECK(InferWithN("T[n,m] -> T[n]", {{{4, 9}}}, Scalar(4)) == std::vector<Shape>{{4}});
  const Thrown thrown = ThrownBy([] { InferWithN("T[n] -> T[n]", {{{4}}}, Scalar(5)); });
  CHECK_SAYS(
      thrown,
      "[OPABI-S-036] sample 3, input 0, dimension 0: expected 5, found 4, where n = 5 (argument)");
}

TEST_CASE("test_infer_negative_argument_as_extent_fails") {
  const Thrown thrown = ThrownBy([] { InferWithN("-> out: uint8[n]", {}, Scalar(-1)); });
  CHECK_SAYS(
      thrown,
      "[OPABI-S-039] sample 3, output 0 'out', dimension 0: expected an extent of 0 or more, "
      "found -1 from \"n\", where n = -1 (argument)");
}

TEST_CASE("test_infer_argument_that_is_no_integer_of_rank_0_fails") {
  for (const Tensor &n :
       {Tensor{{}, OPABI_FLOAT32, 0}, Tensor{{}, OPABI_BOOL, 1}, Tensor{{1}, OPABI_INT64, 4}}) {
    const Thrown thrown = ThrownBy([&] { InferWithN("-> uint8[2*n]", {}, n); });
    CHECK(thrown.kind == Kind::kType);
    CHECK(thrown.rule == "OPABI-S-040");
    CHECK_SAYS(thrown, "sample 3, argument 'n': expected an integer of rank 0");
    CHECK_SAYS(thrown,
               "found " + DtypeName(n.dtype) + " of rank " + std::to_string(n.shape.size()));
  }
}

TEST_CASE("test_infer_argument_past_63_bits_fails") {
  const Thrown thrown = ThrownBy([] { InferWithN("-> uint8[n]", {}, Scalar(-1, OPABI_UINT64)); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK(thrown.rule == "OPABI-S-040");
  CHECK_SAYS(thrown, "found 18446744073709551615");
}

TEST_CASE("test_infer_writes_rows_of_the_callers_length") {
  const Signature signature = Signature::Parse("T[h,w] -> T[h], T[w,h]");
  const std::vector<Tensor> inputs{{{4, 5}}};
  const BoundTypes types = Bind(signature, inputs);
  int64_t rows[4] = {-7, -7, -7, -7};
  signature.InferShapes(types, Views(inputs).data(), nullptr, 0, 2, rows);
  CHECK(rows[0] == 4);
  CHECK(rows[1] == -7);  // past the rank nothing is written
  CHECK(rows[2] == 5);
  CHECK(rows[3] == 4);
}

TEST_CASE("test_infer_asks_for_no_memory") {
  const Signature signature =
      Signature::Parse("T[h,w,c], U[2*h,...] -> T[2*h,w//n,c], U[...,<=h], T[...?]", {&kN});
  const std::vector<Tensor> inputs{{{4, 5, 3}}, {{8, 6}}}, args{Scalar(2)};
  const BoundTypes types = Bind(signature, inputs);
  const std::vector<opabi_tensor> in = Views(inputs), arg = Views(args);
  int64_t rows[3 * OPABI_MAX_NDIM];
  const int64_t before = Allocations();
  for (int64_t sample = 0; sample < 10; sample++) {
    signature.InferShapes(types, in.data(), arg.data(), sample, OPABI_MAX_NDIM, rows);
  }
  CHECK(Allocations() == before);
  CHECK(rows[1] == 2);
}

TEST_CASE("test_infer_deepest_expression_is_evaluated") {
  std::string extent = "h+h*h";
  for (int i = 0; i < kMaxNesting; i++) extent = "h+h*(" + extent + ")";
  int64_t expected = 0;
  for (int i = 0; i < kMaxNesting + 1; i++) expected = 1 + 1 * (i ? expected : 1);
  CHECK(Infer("T[h] -> T[" + extent + "]", {{1}}) == std::vector<Shape>{{expected}});
}

// ---- Random expressions against a second evaluator ----------------------------------------------

/// An expression as a tree: its text, and its value by 128-bit arithmetic that checks each step.
struct Tree {
  std::string text;
  int precedence;  // 0: sum, 1: product, 2: atom
  std::optional<int64_t> value;
};

__extension__ typedef __int128 Wide;

Tree RandomTree(std::mt19937_64 &random, int depth, const Shape &dims) {
  if (depth == 0 || random() % 4 == 0) {
    const size_t i = random() % (2 * dims.size());
    if (i < dims.size()) return {std::string(1, static_cast<char>('a' + i)), 2, dims[i]};
    const int64_t constant =
        static_cast<int64_t>(random() % 5 ? random() % 10 : random() >> (1 + random() % 63));
    return {std::to_string(constant), 2, constant};
  }
  const Tree left = RandomTree(random, depth - 1, dims),
             right = RandomTree(random, depth - 1, dims);
  const char *const symbols[] = {"+", "-", "*", "//"};
  const size_t op = random() % 4;
  const int precedence = op < 2 ? 0 : 1;
  const auto part = [](const Tree &tree, bool bare) {
    return bare ? tree.text : "(" + tree.text + ")";
  };
  Tree tree{part(left, left.precedence >= precedence) + symbols[op] +
                part(right, right.precedence > precedence),
            precedence, std::nullopt};
  if (!left.value || !right.value || (op == 3 && *right.value == 0)) return tree;
  const Wide l = *left.value, r = *right.value;
  Wide value = op == 0 ? l + r : op == 1 ? l - r : op == 2 ? l * r : l / r;
  if (op == 3 && value * r != l && (l < 0) != (r < 0)) value--;
  if (value >= INT64_MIN && value <= INT64_MAX) tree.value = static_cast<int64_t>(value);
  return tree;
}

TEST_CASE("test_infer_random_expressions_agree_with_wide_arithmetic") {
  std::mt19937_64 random(20240607);
  int n_values = 0, n_faults = 0, n_negative = 0;
  for (int round = 0; round < 20000; round++) {
    Shape dims;
    for (int i = 0; i < 3; i++) {
      dims.push_back(
          static_cast<int64_t>(random() % 8 ? random() % 12 : random() >> (1 + random() % 63)));
    }
    const Tree tree = RandomTree(random, 1 + static_cast<int>(random() % 5), dims);
    CAPTURE(tree.text);
    CAPTURE(dims[0]);
    CAPTURE(dims[1]);
    CAPTURE(dims[2]);
    std::optional<int64_t> found;
    std::string rule;
    try {
      found = Infer("T[a,b,c] -> T[" + tree.text + "]", {dims})[0][0];
    } catch (const Error &error) {
      rule = error.rule();
    }
    if (!tree.value) {
      n_faults++;
      const bool fault = rule == "OPABI-S-014" || rule == "OPABI-S-015" || rule == "OPABI-S-037" ||
                         rule == "OPABI-S-038";
      CHECK(fault);
    } else if (*tree.value < 0) {
      n_negative++;
      const bool negative = rule == "OPABI-S-021" || rule == "OPABI-S-039";
      CHECK(negative);
    } else {
      n_values++;
      CHECK(rule == "");
      CHECK(found == tree.value);
    }
  }
  CHECK(n_values > 5000);
  CHECK(n_faults > 1000);
  CHECK(n_negative > 1000);
}

}  // namespace
}  // namespace opabi
