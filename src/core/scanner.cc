// SPDX-License-Identifier: Apache-2.0
#include "core/scanner.h"

#include <algorithm>

#include "core/error.h"

namespace opabi {
namespace {

constexpr size_t kMaxText = 16384;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool StartsName(char c) { return IsLetter(c) || c == '_'; }
bool InName(char c) { return StartsName(c) || IsDigit(c); }
bool IsControl(char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7F'; }

/// The line of `text` with a caret under the byte `at`; of a long one, the part around it.
std::string Excerpt(std::string_view text, size_t at) {
  constexpr size_t kBefore = 60, kWidth = 96;
  const size_t begin = at > kBefore ? at - kBefore : 0;
  std::string line(text.substr(begin, kWidth));
  for (char &c : line) {
    if (IsControl(c)) c = IsSpace(c) ? ' ' : '?';
  }
  line = CleanMessage(line.data(), static_cast<int64_t>(line.size()));
  const std::string indent = "\n    ", before = begin > 0 ? "..." : "";
  const std::string after = begin + kWidth < text.size() ? "..." : "";
  return indent + before + line + after + indent + std::string(before.size() + at - begin, ' ') +
         "^";
}

}  // namespace

Scanner::Scanner(std::string_view text) : text_(text) {
  const std::string_view head = text.substr(0, kMaxText);
  for (size_t i = 0; i < head.size(); i++) {
    if (static_cast<unsigned char>(head[i]) < 0x80) continue;
    Fail("OPABI-S-001", i,
         "expected ASCII text, found another character; write '->', '...', '<=', '*' and plain "
         "letters");
  }
  if (text.size() > kMaxText) {
    Fail("OPABI-S-002", kMaxText,
         "expected at most " + std::to_string(kMaxText) + " bytes, found " +
             std::to_string(text.size()) + "; shorten names, or leave extents to setup with '?'");
  }
}

size_t Scanner::Next() const {
  size_t at = at_;
  while (at < text_.size() && IsSpace(text_[at])) at++;
  return at;
}

bool Scanner::LooksAt(std::string_view symbol) const {
  return text_.substr(Next(), symbol.size()) == symbol;
}

bool Scanner::LooksAtDigit() const { return !AtEnd() && IsDigit(text_[Next()]); }
bool Scanner::LooksAtName() const { return !AtEnd() && StartsName(text_[Next()]); }
bool Scanner::AdjoinsName() const { return at_ == Next() && LooksAtName(); }

bool Scanner::Take(std::string_view symbol) {
  if (!LooksAt(symbol)) return false;
  at_ = Next() + symbol.size();
  return true;
}

template <typename Matches>
std::string Scanner::TakeWhile(Matches matches) {
  const size_t begin = Next();
  size_t end = begin;
  while (end < text_.size() && matches(text_[end])) end++;
  if (end > begin) at_ = end;
  return std::string(text_.substr(begin, end - begin));
}

std::string Scanner::TakeName() { return LooksAtName() ? TakeWhile(InName) : ""; }
std::string Scanner::TakeDigits() { return TakeWhile(IsDigit); }
std::string Scanner::TakeLayout() {
  return TakeWhile([](char c) { return IsLetter(c) || IsDigit(c); });
}

std::string Scanner::TextFrom(size_t begin) const {
  std::string line;
  for (char c : text_.substr(begin, at_ - begin)) {
    if (!IsSpace(c)) {
      line += c;
    } else if (line.back() != ' ') {
      line += ' ';
    }
  }
  return line;
}

std::string Scanner::Found() const {
  const size_t begin = Next();
  if (begin == text_.size()) return "the end";
  if (IsControl(text_[begin])) return "a control character";
  size_t end = begin + 1;
  if (InName(text_[begin])) {
    while (end < text_.size() && InName(text_[end])) end++;
  }
  for (std::string_view symbol : {"->", "...", "<=", "//"}) {
    if (LooksAt(symbol)) end = begin + symbol.size();
  }
  return "'" + std::string(text_.substr(begin, end - begin)) + "'";
}

void Scanner::Fail(const char *rule, size_t at, const std::string &sentence) const {
  throw Error(Kind::kValue, rule, "signature: " + sentence + "." + Excerpt(text_, at));
}

void Scanner::FailExpected(const char *rule, const std::string &what,
                           const std::string &advice) const {
  Fail(rule, Next(), "expected " + what + ", found " + Found() + "; " + advice);
}

}  // namespace opabi
