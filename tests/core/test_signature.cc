// SPDX-License-Identifier: Apache-2.0
// The parser: what a signature's text means, and what it says about a text that means nothing.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/signature.h"
#include "thrown.h"

namespace opabi {
namespace {

const opabi_arg kSize{"size", nullptr, OPABI_INT32, 0, nullptr, 0};
const opabi_arg kAny{"any_size", nullptr, OPABI_DTYPE_ANY, OPABI_NDIM_ANY, nullptr, 0};
const opabi_arg kSigma{"sigma", nullptr, OPABI_FLOAT32, 0, nullptr, 0};
const opabi_arg kFlag{"flag", nullptr, OPABI_BOOL, 0, nullptr, 0};
const opabi_arg kList{"list", nullptr, OPABI_INT64, 1, nullptr, 0};

Signature Parse(const std::string &text) {
  return Signature::Parse(text, {&kSize, &kAny, &kSigma, &kFlag, &kList});
}

std::string Repeat(const std::string &part, int n, const std::string &between = "") {
  std::string text;
  for (int i = 0; i < n; i++) text += (i ? between : "") + part;
  return text;
}

/// What stands in the shown line from the caret on.
std::string AtCaret(const std::string &message) {
  const size_t caret_line = message.rfind('\n'), line = message.rfind('\n', caret_line - 1);
  REQUIRE(line != std::string::npos);
  const std::string shown = message.substr(line + 1, caret_line - line - 1);
  const size_t column = message.size() - caret_line - 2;
  REQUIRE(message.back() == '^');
  REQUIRE(column <= shown.size());
  return shown.substr(column);
}

/// Checks that parsing fails by `rule`, with the caret where the text goes on with `rest`.
void CheckFails(const std::string &rule, const std::string &text, const std::string &rest,
                const std::string &says = "") {
  CAPTURE(text);
  const Thrown thrown = ThrownBy([&] { Parse(text); });
  INFO(thrown.what);
  CHECK(thrown.rule == rule);
  CHECK(thrown.kind == Kind::kValue);
  CHECK(AtCaret(thrown.what) == rest);
  CHECK(thrown.Says(says));
  CHECK(thrown.Says("expected "));
  CHECK(thrown.Says("found "));
}

TEST_CASE("test_parse_ports_have_names_types_dims_and_layouts") {
  const Signature signature = Parse(
      " image : T[h, w ,3]@HWC,label:float32 [ k ] -> T[3,\n 2 * h , w//2]@CHW, float32, _b: "
      "bool[]");
  REQUIRE(signature.inputs().size() == 2);
  REQUIRE(signature.outputs().size() == 3);
  const Port &image = signature.inputs()[0], &label = signature.inputs()[1];
  CHECK(image.name == "image");
  CHECK(image.dtype == OPABI_DTYPE_ANY);
  CHECK(image.type_variable == 0);
  CHECK(image.dims.size() == 3);
  CHECK(image.layout == "HWC");
  CHECK(image.text == "image : T[h, w ,3]@HWC");
  CHECK(label.dtype == OPABI_FLOAT32);
  CHECK(label.type_variable == -1);
  CHECK(label.layout == "");
  const Port &turned = signature.outputs()[0];
  CHECK(turned.name == "");
  CHECK(turned.type_variable == 0);
  CHECK(turned.text == "T[3, 2 * h , w//2]@CHW");
  CHECK(turned.dims[1].text == "2 * h");
  CHECK(signature.outputs()[1].dims.empty());
  CHECK(signature.outputs()[2].name == "_b");
  CHECK(signature.outputs()[2].dims.empty());
  CHECK(signature.InputLabel(0) == "input 0 'image'");
  CHECK(signature.OutputLabel(1) == "output 1");
}

TEST_CASE("test_parse_every_dtype_name_is_known") {
  for (const char *name : {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32",
                           "int64", "float16", "float32", "float64"}) {
    const Signature signature = Parse(std::string(name) + "[n] -> " + name);
    CHECK(signature.inputs()[0].dtype != OPABI_DTYPE_ANY);
    CHECK(signature.outputs()[0].dtype == signature.inputs()[0].dtype);
  }
}

TEST_CASE("test_parse_flags_say_what_is_left_open") {
  const auto flags = [](const std::string &text) {
    const Signature signature = Parse(text);
    return std::string(signature.needs_setup() ? "setup " : "") +
           (signature.bounded() ? "bounded " : "") +
           (signature.uses_arguments() ? "arguments" : "");
  };
  CHECK(flags("T[...] -> T[...]") == "");
  CHECK(flags("T[n] -> T[?]") == "setup ");
  CHECK(flags("T[n] -> ?[n]") == "setup ");
  CHECK(flags("T[n] -> T[...?]") == "setup ");
  CHECK(flags("T[n] -> T[<=n]") == "bounded ");
  CHECK(flags("T[n] -> T[<=?]") == "setup bounded ");
  CHECK(flags("T[size] -> T") == "arguments");
  CHECK(flags("T -> T[any_size + 1]") == "arguments");
}

TEST_CASE("test_parse_dims_have_kinds") {
  const std::vector<Dim> dims = Parse("T[h,...] -> T[h,?,<=2*h,<=?,...,3]").outputs()[0].dims;
  REQUIRE(dims.size() == 6);
  CHECK(dims[0].kind == Dim::kExpr);
  CHECK(dims[1].kind == Dim::kOpen);
  CHECK(dims[2].kind == Dim::kBounded);
  CHECK(dims[3].kind == Dim::kBoundedOpen);
  CHECK(dims[4].kind == Dim::kEllipsis);
  CHECK(dims[5].kind == Dim::kExpr);
}

TEST_CASE("test_port_says_whether_it_is_open_or_bounded") {
  const Signature signature = Parse("T[h,...] -> T[h,...], T[... ?], T[<=h], T");
  CHECK(signature.inputs()[0].ellipsis_at() == 1);
  CHECK(!signature.outputs()[0].open_rank());
  CHECK(signature.outputs()[1].open_rank());
  CHECK(signature.outputs()[1].ellipsis_at() == 0);
  CHECK(signature.outputs()[2].bounded());
  CHECK(!signature.outputs()[1].bounded());
  CHECK(signature.outputs()[3].ellipsis_at() == -1);
}

TEST_CASE("test_parse_kernels_without_inputs_or_outputs_are_legal") {
  CHECK(Parse("->").inputs().empty());
  CHECK(Parse(" -> uint8[3]").outputs().size() == 1);
  CHECK(Parse("uint8[n] -> ").inputs().size() == 1);
}

TEST_CASE("test_parse_constants_are_folded") {
  const auto ops = [](const std::string &extent) {
    return Parse("T[h] -> T[" + extent + "]").outputs()[0].dims[0].expr;
  };
  REQUIRE(ops("(2+3)*4 - 7//2").size() == 1);
  CHECK(ops("(2+3)*4 - 7//2")[0].value == 17);
  CHECK(ops("(1-8)//2 + 9")[0].value == 5);
  CHECK(ops("h + 1 - 1").size() == 5);
}

TEST_CASE("test_parse_text_that_is_not_ascii_fails") {
  CheckFails("OPABI-S-001", "T[h] \xE2\x86\x92 T[h]", "\xE2\x86\x92 T[h]", "'->'");
  CheckFails("OPABI-S-001", "h\xC3\xB6he: T -> T", "\xC3\xB6he: T -> T");
}

TEST_CASE("test_parse_bytes_that_are_not_utf8_leave_the_message_clean") {
  const Thrown thrown = ThrownBy([] { Parse("T\xFF -> T"); });
  CHECK(thrown.rule == "OPABI-S-001");
  CHECK(!thrown.Says("\xFF"));
}

TEST_CASE("test_parse_long_text_fails_past_the_limit") {
  const std::string fits = "T[n] -> T[n" + std::string(16384 - 12, ' ') + "]";
  REQUIRE(fits.size() == 16384);
  CHECK(Parse(fits).outputs()[0].text == "T[n ]");
  CheckFails("OPABI-S-002", fits + " ", " ", "16385");
}

TEST_CASE("test_parse_long_text_shows_the_part_around_the_caret") {
  const std::string many = Repeat("T[aaaa,bbbb]", 40, ", ");
  const Thrown thrown = ThrownBy([&] { Parse(many + ", T[!], " + many + " -> T"); });
  CHECK(thrown.rule == "OPABI-S-004");
  CHECK(AtCaret(thrown.what).substr(0, 3) == "!],");
  CHECK(thrown.what.size() < 500);
  CHECK(thrown.Says("..."));
}

TEST_CASE("test_parse_text_without_arrow_fails") {
  CheckFails("OPABI-S-003", "", "", "found the end");
  CheckFails("OPABI-S-003", "  ", "");
  CheckFails("OPABI-S-003", "T[h]", "");
  CheckFails("OPABI-S-003", "T[h], uint8", "");
}

TEST_CASE("test_parse_text_that_breaks_the_grammar_fails") {
  CheckFails("OPABI-S-004", "T[h] T[h] -> T", "T[h] -> T", "',' or '->'");
  CheckFails("OPABI-S-004", "T[h] = T", "= T");
  CheckFails("OPABI-S-004", "T[h w] -> T", "w] -> T", "found 'w'");
  CheckFails("OPABI-S-004", "T[h/2] -> T", "/2] -> T", "//");
  CheckFails("OPABI-S-004", "T[2h] -> T", "h] -> T");
  CheckFails("OPABI-S-004", "T[h -> T", "-> T", "found '->'");
  CheckFails("OPABI-S-004", "T[h], -> T", "-> T", "a type");
  CheckFails("OPABI-S-004", "T -> T,", "", "a type");
  CheckFails("OPABI-S-004", ": T -> T", ": T -> T");
  CheckFails("OPABI-S-004", "image: -> T", "-> T");
  CheckFails("OPABI-S-004", "T[,h] -> T", ",h] -> T", "an integer, a name or '('");
  CheckFails("OPABI-S-004", "T[h,] -> T", "] -> T");
  CheckFails("OPABI-S-004", "T[-1] -> T", "-1] -> T");
  CheckFails("OPABI-S-004", "T[h] -> T[2*?]", "?]");
  CheckFails("OPABI-S-004", "T[h] -> T[(h]", "]", "')'");
  CheckFails("OPABI-S-004", "T[h] -> T[h)]", ")]");
  CheckFails("OPABI-S-004", "T[... x] -> T", "x] -> T");
  CheckFails("OPABI-S-004", "T[...] -> T[...??]", "?]");
  CheckFails("OPABI-S-004", "T@HWC[h,w,c] -> T", "[h,w,c] -> T", "after the brackets");
  CheckFails("OPABI-S-004", std::string("T[\0] -> T", 9), "?] -> T", "a control character");
}

TEST_CASE("test_parse_rest_after_the_outputs_fails") {
  CheckFails("OPABI-S-005", "T -> T;", ";");
  CheckFails("OPABI-S-005", "T -> T -> T", "-> T");
  CheckFails("OPABI-S-005", "-> ->", "->");
  CheckFails("OPABI-S-005", "T -> T T", "T");
}

TEST_CASE("test_parse_more_than_64_ports_fails") {
  const std::string full = Repeat("T", 64, ",");
  CHECK(Parse(full + " -> " + full).outputs().size() == 64);
  CheckFails("OPABI-S-006", full + ",uint8 -> T", "uint8 -> T", "inputs");
  CheckFails("OPABI-S-006", "T -> " + full + ",uint8", "uint8", "outputs");
}

TEST_CASE("test_parse_name_of_two_ports_or_of_an_argument_fails") {
  CheckFails("OPABI-S-007", "a: T, a: T -> T", "a: T -> T", "another port");
  CheckFails("OPABI-S-007", "T, a: T -> a: T", "a: T", "another port");
  CheckFails("OPABI-S-007", "sigma: T -> T", "sigma: T -> T", "an argument");
}

TEST_CASE("test_parse_unknown_dtype_suggests_what_was_meant") {
  const struct {
    const char *word, *meant;
  } cases[] = {
      {"float", "float32"}, {"double", "float64"}, {"half", "float16"},    {"int", "int64"},
      {"uint", "uint64"},   {"u8", "uint8"},       {"i16", "int16"},       {"f32", "float32"},
      {"uint8_t", "uint8"}, {"unit8", "uint8"},    {"flaot32", "float32"}, {"boolean", "bool"},
      {"itn64", "int64"},   {"Uint8", "uint8"},    {"FLOAT32", "float32"}, {"string", "uint8"}};
  for (const auto &c : cases) {
    const std::string text = std::string(c.word) + "[n] -> T";
    CheckFails("OPABI-S-008", text, text, "write " + std::string(c.meant) + ",");
  }
  CheckFails("OPABI-S-008", "T -> colour", "colour", "one of bool, uint8 to uint64");
  CheckFails("OPABI-S-008", "_t -> T", "_t -> T");
  const std::string lengthy(3000, 'x');
  CHECK(ThrownBy([&] { Parse(lengthy + " -> T"); }).rule == "OPABI-S-008");
}

TEST_CASE("test_parse_type_variable_without_input_fails") {
  CheckFails("OPABI-S-009", "T[h] -> U[h]", "U[h]");
  CheckFails("OPABI-S-009", "-> T", "T");
}

TEST_CASE("test_parse_open_or_bounded_input_fails") {
  CheckFails("OPABI-S-010", "?[h] -> T", "?[h] -> T");
  CheckFails("OPABI-S-010", "T[h,?] -> T", "?] -> T");
  CheckFails("OPABI-S-010", "T[<=3] -> T", "<=3] -> T");
  CheckFails("OPABI-S-010", "T[...?] -> T", "...?] -> T");
}

TEST_CASE("test_parse_second_ellipsis_in_a_port_fails") {
  CheckFails("OPABI-S-011", "T[...,...] -> T", "...] -> T");
  CheckFails("OPABI-S-011", "T[...a,h,...b] -> T", "...b] -> T");
}

TEST_CASE("test_parse_open_rank_beside_an_extent_fails") {  // OPABI-S-022
  CheckFails("OPABI-S-022", "T[h] -> T[h,...?]", "...?]");
  CheckFails("OPABI-S-022", "T[h] -> T[...?,h]", "h]");
  CheckFails("OPABI-S-022", "T[...] -> T[...?,...]", "...]");
}

TEST_CASE("test_parse_ellipsis_without_input_fails") {
  CheckFails("OPABI-S-012", "T[h] -> T[...]", "...]");
  CheckFails("OPABI-S-012", "T[h,...a] -> T[h, ...b]", "...b]");
  CheckFails("OPABI-S-012", "T[...a] -> T[...]", "...]");
}

TEST_CASE("test_parse_more_than_15_dimensions_fails") {
  const std::string full = Repeat("1", 15, ",");
  CHECK(Parse("T[" + full + "] -> T").inputs()[0].dims.size() == 15);
  CHECK(Parse("T[1,...," + Repeat("1", 14, ",") + "] -> T").inputs()[0].dims.size() == 16);
  CheckFails("OPABI-S-013", "T[" + full + ",2] -> T", "2] -> T");
  CheckFails("OPABI-S-013", "T[...," + full + ",2] -> T", "2] -> T");
}

TEST_CASE("test_parse_constant_past_64_bits_fails") {
  CHECK(Parse("T -> T[9223372036854775807]").outputs()[0].dims[0].expr[0].value == INT64_MAX);
  CheckFails("OPABI-S-014", "T -> T[9223372036854775808]", "9223372036854775808]");
  CheckFails("OPABI-S-014", "T -> T[99999999999999999999999]", "99999999999999999999999]");
  CheckFails("OPABI-S-014", "T -> T[9223372036854775807 + 1]", "1]");
  CheckFails("OPABI-S-014", "T -> T[4294967296*4294967296]", "4294967296]");
  CheckFails("OPABI-S-014", "T -> T[(0-9223372036854775807-1)//(0-1)]", "(0-1)]");
}

TEST_CASE("test_parse_division_by_constant_zero_fails") {
  CheckFails("OPABI-S-015", "T[h] -> T[h//0]", "0]");
  CheckFails("OPABI-S-015", "T[h] -> T[h//(2-2)]", "(2-2)]");
  CheckFails("OPABI-S-015", "T[h] -> T[h + 3 // 0 * 2]", "0 * 2]");
}

TEST_CASE("test_parse_parentheses_past_the_limit_fail") {
  const auto nested = [](int n) {
    return "T[h] -> T[" + Repeat("(", n) + "h" + Repeat(")", n) + "]";
  };
  CHECK(Parse(nested(30)).outputs()[0].dims[0].expr.size() == 1);
  CHECK(ThrownBy([&] { Parse(nested(31)); }).rule == "OPABI-S-016");
  CHECK(ThrownBy([&] { Parse(nested(8000)); }).rule == "OPABI-S-016");
  CHECK(ThrownBy([&] { Parse("T[h] -> T[" + Repeat("(", 16000)); }).rule == "OPABI-S-016");
}

TEST_CASE("test_parse_name_that_nothing_gives_a_value_fails") {
  CheckFails("OPABI-S-017", "T[h] -> T[h,w]", "w]", "found 'w'");
  CheckFails("OPABI-S-017", "T[2*h] -> T", "h] -> T", "alone in an input");
  CheckFails("OPABI-S-017", "T[h] -> T[H]", "H]");
  CheckFails("OPABI-S-017", "T[h,w], T[2*(h+k)] -> T", "k)] -> T");
  CHECK(Parse("T[2*h], T[(h)] -> T[h]").inputs().size() == 2);
}

TEST_CASE("test_parse_argument_that_is_no_integer_of_rank_0_as_extent_fails") {
  CheckFails("OPABI-S-018", "T -> T[sigma]", "sigma]", "declared float32 of rank 0");
  CheckFails("OPABI-S-018", "T -> T[2*flag]", "flag]", "bool");
  CheckFails("OPABI-S-018", "T[list] -> T", "list] -> T", "rank 1");
  CHECK(Parse("T[size] -> T[any_size]").uses_arguments());
}

TEST_CASE("test_parse_layout_of_other_characters_or_length_fails") {
  CheckFails("OPABI-S-019", "T[h]@ -> T", "-> T");
  CheckFails("OPABI-S-019", "T[h,w]@H_W -> T", "_W -> T");
  CheckFails("OPABI-S-019", "T[h] -> T[h]@", "");
  CheckFails("OPABI-S-019", "T[...]@ABCDEFGHIJKLMNOP -> T", "ABCDEFGHIJKLMNOP -> T", "found 16");
  CHECK(Parse("T[...]@ABCDEFGHIJKLMNO -> T").inputs()[0].layout.size() == 15);
  CHECK(Parse("T[h,w]@ x0,T[h]@W->T").inputs()[0].layout == "x0");
}

TEST_CASE("test_parse_layout_that_does_not_fit_the_dimensions_fails") {
  CheckFails("OPABI-S-020", "T[h,w]@HWC -> T", "HWC -> T", "length 2, found 3");
  CheckFails("OPABI-S-020", "T@H -> T", "H -> T", "length 0, found 1");
  CheckFails("OPABI-S-020", "T[h,...,c]@H -> T", "H -> T", "length 2 or more, found 1");
  CheckFails("OPABI-S-020", "T[h,...] -> T[h,?,...]@H", "H");
  CHECK(Parse("T[h,...]@HWC -> T[...?]@ABC").outputs()[0].layout == "ABC");
}

TEST_CASE("test_parse_negative_constant_extent_fails") {
  CheckFails("OPABI-S-021", "T -> T[1-2]", "1-2]", "found -1");
  CheckFails("OPABI-S-021", "T[3-4] -> T", "3-4] -> T");
  CheckFails("OPABI-S-021", "T -> T[<= 2-3]", "2-3]");
  CHECK(Parse("T[h] -> T[2-3+h]").outputs()[0].dims[0].expr.size() == 3);
}

}  // namespace
}  // namespace opabi
