// SPDX-License-Identifier: Apache-2.0
// Signatures: any text is parsed or refused with a message in order; what parses is bound and
// inferred with inputs and arguments that mostly fit, and extents are compared with a second
// evaluation.
//
// An input is the signature's text, a NUL, and bytes that decide about dtypes, ranks, extents and
// values.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/signature.h"

namespace opabi {
namespace {

#define REQUIRE_THAT(condition)                                                        \
  do {                                                                                 \
    if (condition) break;                                                              \
    std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
    std::abort();                                                                      \
  } while (false)

const opabi_arg kN{"n", nullptr, OPABI_INT64, 0, nullptr, 0};
const opabi_arg kM{"m", nullptr, OPABI_DTYPE_ANY, OPABI_NDIM_ANY, nullptr, 0};
const opabi_arg kSigma{"sigma", nullptr, OPABI_FLOAT32, 0, nullptr, 0};
constexpr int kArgs = 3;

/// The deciding bytes; zeros when they are used up.
class Choices {
 public:
  Choices(const uint8_t *data, size_t size) : data_(data), end_(data + size) {}
  uint8_t Next() { return data_ < end_ ? *data_++ : 0; }
  bool Rarely() { return Next() > 244; }
  int64_t Extent() {
    const uint8_t byte = Next();
    return byte < 240   ? byte % 12
           : byte < 248 ? INT64_MAX >> (byte - 240) * 8
                        : int64_t{1} << (byte - 248) * 8;
  }

 private:
  const uint8_t *data_, *end_;
};

/// One batch of one sample: what the names shall stand for, and the tensors made from that.
struct Sample {
  std::vector<int64_t> dimensions, args;
  std::vector<uint32_t> dtypes;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<int32_t> ndims;
  std::vector<opabi_tensor> inputs, arg_tensors;
  bool fits = true;  // nothing was changed to fit no longer
};

std::optional<int64_t> Value(const std::vector<ExprOp> &expr, const Sample &sample) {
  std::vector<int64_t> stack;
  for (const ExprOp &op : expr) {
    if (op.code < ExprOp::kAdd) {
      stack.push_back(op.code == ExprOp::kConstant    ? op.value
                      : op.code == ExprOp::kDimension ? sample.dimensions[op.value]
                                                      : sample.args[op.value]);
      continue;
    }
    const __int128 right = stack.back();
    stack.pop_back();
    const __int128 left = stack.back();
    if (op.code == ExprOp::kFloorDiv && right == 0) return std::nullopt;
    __int128 value = op.code == ExprOp::kAdd   ? left + right
                     : op.code == ExprOp::kSub ? left - right
                     : op.code == ExprOp::kMul ? left * right
                                               : left / right;
    if (op.code == ExprOp::kFloorDiv && value * right != left && (left < 0) != (right < 0)) value--;
    if (value < INT64_MIN || value > INT64_MAX) return std::nullopt;
    stack.back() = static_cast<int64_t>(value);
  }
  return stack.back();
}

Sample MakeSample(const Signature &signature, Choices *choices) {
  Sample sample;
  sample.dimensions.resize(OPABI_MAX_NDIM * OPABI_MAX_PORTS, 2);  // no signature has more names
  for (int i = 0; i < 8; i++) sample.dimensions[i] = choices->Extent();
  sample.args = {choices->Extent() - choices->Rarely(), choices->Extent(), 0};
  const int64_t ellipsis_rank = choices->Rarely() ? choices->Next() % 16 : choices->Next() % 3;
  for (const Port &port : signature.inputs()) {
    sample.dtypes.push_back(port.type_variable < 0 ? port.dtype : kDtypes[port.type_variable % 12]);
    std::vector<int64_t> shape;
    for (const Dim &dim : port.dims) {
      if (dim.kind == Dim::kEllipsis) {
        shape.insert(shape.end(), ellipsis_rank, dim.ellipsis + 2);
        continue;
      }
      const std::optional<int64_t> extent = Value(dim.expr, sample);
      sample.fits &= extent.has_value() && *extent >= 0;
      shape.push_back(std::max<int64_t>(extent.value_or(1), 0));
    }
    sample.fits &= shape.size() <= OPABI_MAX_NDIM && port.layout.empty();
    if (choices->Rarely()) {
      sample.fits = false;
      if (choices->Next() % 2) shape.push_back(1);
      if (choices->Next() % 2 && !shape.empty())
        shape[choices->Next() % shape.size()] = choices->Extent();
      if (choices->Next() % 4 == 0) sample.dtypes.back() = kDtypes[choices->Next() % 12];
    }
    sample.shapes.push_back(shape);
  }
  for (const std::vector<int64_t> &shape : sample.shapes) {
    sample.ndims.push_back(static_cast<int32_t>(shape.size()));
    sample.inputs.push_back({nullptr, OPABI_CPU, 0, sample.ndims.back(),
                             sample.dtypes[sample.inputs.size()], shape.data(), nullptr, 0});
  }
  for (int64_t &value : sample.args) {
    sample.arg_tensors.push_back({&value, OPABI_CPU, 0, 0, OPABI_INT64, nullptr, nullptr, 0});
  }
  if (choices->Rarely()) {
    sample.arg_tensors[choices->Next() % kArgs].dtype = kDtypes[choices->Next() % 12];
    sample.fits = false;
  }
  return sample;
}

void CheckOutputs(const Signature &signature, const BoundTypes &types, const Sample &sample,
                  const std::vector<int64_t> &rows) {
  for (size_t port = 0; port < signature.outputs().size(); port++) {
    const int64_t *row = rows.data() + port * OPABI_MAX_NDIM;
    const Port &output = signature.outputs()[port];
    if (types.out_ndim[port] == OPABI_UNSET) {
      REQUIRE_THAT(output.open_rank());
      REQUIRE_THAT(std::count(row, row + OPABI_MAX_NDIM, OPABI_UNSET) == OPABI_MAX_NDIM);
      continue;
    }
    REQUIRE_THAT(types.out_ndim[port] >= 0 && types.out_ndim[port] <= OPABI_MAX_NDIM);
    const int64_t *extent = row;
    for (const Dim &dim : output.dims) {
      if (dim.kind == Dim::kEllipsis) {
        for (int d = 0; d < types.ellipsis_ranks[dim.ellipsis]; d++) REQUIRE_THAT(*extent++ >= 0);
      } else if (dim.kind == Dim::kOpen || dim.kind == Dim::kBoundedOpen) {
        REQUIRE_THAT(*extent++ == OPABI_UNSET);
      } else {
        if (sample.fits) REQUIRE_THAT(Value(dim.expr, sample) == *extent);
        REQUIRE_THAT(*extent++ >= 0);
      }
    }
    REQUIRE_THAT(extent == row + types.out_ndim[port]);
  }
}

void CheckError(const Error &error, const char *first_rule, const char *last_rule) {
  const std::string what = error.what();
  REQUIRE_THAT(first_rule <= error.rule() && error.rule() <= last_rule);
  REQUIRE_THAT(CleanMessage(what.data(), static_cast<int64_t>(what.size())) == what);
}

void CheckParseError(const Error &error) {
  CheckError(error, "OPABI-S-001", "OPABI-S-022");
  const std::string what = error.what();
  REQUIRE_THAT(error.kind() == Kind::kValue);
  REQUIRE_THAT(std::count(what.begin(), what.end(), '\n') == 2);
  REQUIRE_THAT(what.back() == '^');
  REQUIRE_THAT(what.size() - what.rfind('\n') <= 110);
}

void UseSignature(const Signature &signature, Choices *choices) {
  const Sample sample = MakeSample(signature, choices);
  std::vector<int64_t> rows(signature.outputs().size() * OPABI_MAX_NDIM);
  BoundTypes types;
  try {
    types = signature.BindTypes(sample.dtypes.data(), sample.ndims.data());
  } catch (const Error &error) {
    CheckError(error, "OPABI-S-031", "OPABI-S-035");
    REQUIRE_THAT(error.kind() == Kind::kType);
    REQUIRE_THAT(!sample.fits || error.rule() == "OPABI-S-035");
    return;
  }
  try {
    signature.InferShapes(types, sample.inputs.data(), sample.arg_tensors.data(), 0, OPABI_MAX_NDIM,
                          rows.data());
  } catch (const Error &error) {
    CheckError(error, "OPABI-S-036", "OPABI-S-040");
    REQUIRE_THAT(!sample.fits || (error.rule() != "OPABI-S-036" && error.rule() != "OPABI-S-040"));
    return;
  }
  CheckOutputs(signature, types, sample, rows);
}

// ---- Mutation by tokens -------------------------------------------------------------------------

const char *const kSeeds[] = {
    "image: T[h,w,c]@HWC, label: float32[k] -> T[c,h,w]@CHW, float32[k]",
    "T[...] -> float32[...]",
    "T[h,...a,c], U[...b] -> U[...b,2*h], ?[...?]",
    "T[n,m] -> T[<=n*m//2], T[?], T[<=?]",
    "uint8[2*(h+1)-n, h] -> uint8[h//(m-3), (h+n)*(h-1)//2]",
    "a: T[...,h], b: T[h,...], T[2*h,...c] -> T[...c,h], T[...]",
    "T[...,c] -> T[1,2,3,...], T[...,c//(c-1)]",
    "T[a,b,c,d,e,f,g,h,i,j,k,l,m,n] -> T[((((((((((((((((((((((((((a))))))))))))))))))))))))))]",
    "bool, int64 -> ",
    "-> uint8[n,m]",
};
const char *const kWords[] = {"->",
                              ",",
                              "[",
                              "]",
                              "(",
                              ")",
                              "...",
                              "...a",
                              "...?",
                              "?",
                              "<=",
                              "@",
                              ":",
                              "+",
                              "-",
                              "*",
                              "//",
                              "T",
                              "U",
                              "uint8",
                              "float32",
                              "float",
                              "h",
                              "w",
                              "n",
                              "m",
                              "sigma",
                              "HWC",
                              "0",
                              "1",
                              "2",
                              "9223372036854775807",
                              "99999999999999999999",
                              " ",
                              "\n",
                              "\xE2\x86\x92",
                              "/",
                              "."};

std::vector<std::string> Tokens(const std::string &text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    const auto word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    while (word(text[at]) && end < text.size() && word(text[end])) end++;
    for (const std::string symbol : {"->", "...", "<=", "//"}) {
      if (text.compare(at, symbol.size(), symbol) == 0) end = at + symbol.size();
    }
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

using Random = std::minstd_rand;  // made anew for each input, which the better ones are slow at

template <typename List>
const auto &PickFrom(const List &list, Random &random) {
  return list[random() % std::size(list)];
}

void MutateTokens(std::vector<std::string> *tokens, Random &random) {
  if (tokens->empty()) tokens->push_back("->");
  const auto at = [&] { return tokens->begin() + static_cast<int64_t>(random() % tokens->size()); };
  const auto first = at();
  const auto last =
      first + static_cast<int64_t>(1 + random() % std::min<size_t>(tokens->end() - first, 6));
  switch (random() % 6) {
    case 0: std::iter_swap(first, at()); break;
    case 1: tokens->erase(first, last); break;
    case 2: *first = PickFrom(kWords, random); break;
    case 3: tokens->insert(first, PickFrom(kWords, random)); break;
    case 4: {
      const std::vector<std::string> part(first, last);
      std::vector<std::string> parts;
      const size_t times = random() % 16 ? 1 : random() % 32 ? random() % 80 : random() % 4000;
      for (size_t i = 0; i < times; i++) parts.insert(parts.end(), part.begin(), part.end());
      tokens->insert(at(), parts.begin(), parts.end());
      break;
    }
    default: {
      std::string &token = *first;
      token[random() % token.size()] =
          static_cast<char>(random() % 8 ? 32 + random() % 95 : random() % 256);
    }
  }
}

}  // namespace
}  // namespace opabi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace opabi;
  const uint8_t *end = std::find(data, data + size, uint8_t{0});
  const std::string text(data, end);
  Choices choices(end, static_cast<size_t>(data + size - end));
  try {
    const Signature signature = Signature::Parse(text, {&kN, &kM, &kSigma});
    REQUIRE_THAT(signature.text() == text);
    choices.Next();
    for (int i = 0; i < 2; i++) UseSignature(signature, &choices);
  } catch (const Error &error) {
    CheckParseError(error);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace opabi;
  Random random(seed);
  std::string text(data, std::find(data, data + size, uint8_t{0}));
  if (text.empty() || random() % 2) text = PickFrom(kSeeds, random);
  std::vector<std::string> tokens = Tokens(text);
  for (size_t i = random() % 4; i > 0; i--) MutateTokens(&tokens, random);
  text.clear();
  for (const std::string &token : tokens) text += token;
  text += '\0';
  for (size_t i = random() % 48; i > 0; i--) text += static_cast<char>(random());
  text.resize(std::min(text.size(), max_size));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
