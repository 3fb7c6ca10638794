// SPDX-License-Identifier: Apache-2.0
// A signature's text as tokens, and the messages that point into it.
#pragma once

#include <string>
#include <string_view>

namespace opabi {

class Scanner {
 public:
  /// Throws Error (OPABI-S-001, OPABI-S-002) unless the text is ASCII and not too long.
  explicit Scanner(std::string_view text);

  /// Where the next token begins.
  size_t Next() const;
  bool AtEnd() const { return Next() == text_.size(); }

  bool LooksAt(std::string_view symbol) const;
  /// True if the next character is a digit, or could begin a name.
  bool LooksAtDigit() const;
  bool LooksAtName() const;

  // These go past the next token if it is what they take, else they stay.
  bool Take(std::string_view symbol);
  std::string TakeName();    // letters, digits and "_", no digit first; or ""
  std::string TakeDigits();  // or ""
  std::string TakeLayout();  // letters and digits, or ""

  /// True if a name follows the last token without white space.
  bool AdjoinsName() const;

  /// What was taken since `begin`, on one line.
  std::string TextFrom(size_t begin) const;

  size_t at() const { return at_; }
  void BackTo(size_t at) { at_ = at; }

  /// The sentence, the line of the signature and a caret under `at`.
  [[noreturn]] void Fail(const char *rule, size_t at, const std::string &sentence) const;

  /// "expected `what`, found the next token; `advice`."
  [[noreturn]] void FailExpected(const char *rule, const std::string &what,
                                 const std::string &advice) const;

 private:
  std::string Found() const;
  template <typename Matches>
  std::string TakeWhile(Matches matches);

  const std::string_view text_;
  size_t at_ = 0;  // after the last token taken
};

}  // namespace opabi
