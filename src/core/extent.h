// SPDX-License-Identifier: Apache-2.0
// Extent expressions of signatures, compiled to postfix. Nothing here throws or allocates: it runs
// for every dimension of every sample.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "opabi/opabi.h"

namespace opabi {

/// One instruction of a compiled extent expression, for a stack machine.
struct ExprOp {
  enum Code : uint8_t { kConstant, kDimension, kArgument, kAdd, kSub, kMul, kFloorDiv };
  Code code;
  int64_t value;  // the constant, the dimension variable's or the argument's number
};

/// Why an expression has no value.
enum class Fault : uint8_t { kNone, kOverflow, kZeroDivisor, kBadArgument };

/// The dimension of an input where a name or an ellipsis first stands, and so gets its value.
struct Place {
  int port = -1;
  int dim = 0;  // in Port::dims
  int axis =
      0;  // of the tensor: from its front if >= 0, from its end if < 0, as an ellipsis lies between

  int64_t extent(const opabi_tensor *inputs) const {
    const opabi_tensor &input = inputs[port];
    return input.shape[axis < 0 ? axis + input.ndim : axis];
  }
};

/// What an expression's names stand for in one sample.
struct Scope {
  const Place *dimensions;
  const opabi_tensor *inputs;
  const opabi_tensor *args;
};

/// Parentheses nest no deeper, so that neither the parser's stack nor the evaluation's overflows.
inline constexpr int kMaxNesting = 30;

/// "a + b * (" leaves two values waiting for what stands in the parentheses, and the innermost
/// expression needs three.
inline constexpr int kMaxStack = 2 * kMaxNesting + 3;

/// The value of `left code right`; quotients are rounded down.
inline Fault Apply(ExprOp::Code code, int64_t left, int64_t right, int64_t *result) {
  switch (code) {
    case ExprOp::kAdd:
      return __builtin_add_overflow(left, right, result) ? Fault::kOverflow : Fault::kNone;
    case ExprOp::kSub:
      return __builtin_sub_overflow(left, right, result) ? Fault::kOverflow : Fault::kNone;
    case ExprOp::kMul:
      return __builtin_mul_overflow(left, right, result) ? Fault::kOverflow : Fault::kNone;
    default:
      if (right == 0) return Fault::kZeroDivisor;
      if (right == -1) return Apply(ExprOp::kSub, 0, left, result);  // INT64_MIN / -1 would trap
      int64_t remainder = left % right;
      *result = left / right - (remainder != 0 && (remainder < 0) != (right < 0));
      return Fault::kNone;
  }
}

/// An argument's value: one integer of any width.
inline Fault ReadExtent(const opabi_tensor &arg, int64_t *result) {
  const auto read = [&](auto value) {
    std::memcpy(&value, arg.data, sizeof value);
    return __builtin_add_overflow(value, 0, result) ? Fault::kBadArgument : Fault::kNone;
  };
  if (arg.ndim != 0) return Fault::kBadArgument;
  switch (arg.dtype) {
    case OPABI_INT8: return read(int8_t{});
    case OPABI_INT16: return read(int16_t{});
    case OPABI_INT32: return read(int32_t{});
    case OPABI_INT64: return read(int64_t{});
    case OPABI_UINT8: return read(uint8_t{});
    case OPABI_UINT16: return read(uint16_t{});
    case OPABI_UINT32: return read(uint32_t{});
    case OPABI_UINT64: return read(uint64_t{});
    default: return Fault::kBadArgument;
  }
}

/// The value of what is no operator.
inline Fault Load(const ExprOp &op, const Scope &scope, int64_t *result) {
  if (op.code == ExprOp::kArgument) return ReadExtent(scope.args[op.value], result);
  *result =
      op.code == ExprOp::kConstant ? op.value : scope.dimensions[op.value].extent(scope.inputs);
  return Fault::kNone;
}

inline Fault Evaluate(const std::vector<ExprOp> &expr, const Scope &scope, int64_t *result) {
  if (expr.size() == 1) return Load(expr[0], scope, result);
  int64_t stack[kMaxStack];
  int64_t *top = stack;  // one past the last value
  for (const ExprOp &op : expr) {
    Fault fault;
    if (op.code < ExprOp::kAdd) {
      fault = Load(op, scope, top++);
    } else {
      top--;
      fault = Apply(op.code, top[-1], top[0], top - 1);
    }
    if (fault != Fault::kNone) return fault;
  }
  *result = stack[0];
  return Fault::kNone;
}

}  // namespace opabi
