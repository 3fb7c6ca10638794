// SPDX-License-Identifier: Apache-2.0
// The one exception of the core. Hosts translate its kind to their own.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace opabi {

enum class Kind { kValue, kType, kIndex, kRuntime, kMemory };

/// A message says which thing, what was expected, what was found and what to do next; `rule` is the id
/// of the broken rule ("OPABI-D-004") or empty. what() is "[rule] message".
class Error : public std::runtime_error {
 public:
  Error(Kind kind, const std::string &rule, const std::string &message)
      : std::runtime_error(rule.empty() ? message : "[" + rule + "] " + message),
        kind_(kind),
        rule_(rule) {}

  Kind kind() const { return kind_; }
  const std::string &rule() const { return rule_; }
  const char *message() const { return what() + (rule_.empty() ? 0 : rule_.size() + 3); }

  /// The same error, its message preceded by where it happened.
  Error In(const std::string &place) const { return Error(kind_, rule_, place + message()); }

 private:
  Kind kind_;
  std::string rule_;
};

/// The name and the kind of error that a kernel's status stands for (OPABI-H-007).
Kind StatusKind(int32_t status);
std::string StatusName(int32_t status);

/// `text` up to its NUL or `capacity`, with bytes that are not UTF-8 replaced.
std::string CleanMessage(const char *text, int64_t capacity);

}  // namespace opabi
