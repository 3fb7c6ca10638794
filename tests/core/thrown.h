// SPDX-License-Identifier: Apache-2.0
// Errors as values, so that a test can look at all parts of one.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/error.h"

namespace opabi {

struct Thrown {
  Kind kind;
  std::string rule, what;

  bool Says(const std::string &part) const { return what.find(part) != std::string::npos; }
};

/// The Error that `action` throws; the test fails if it throws none.
template <typename Action>
Thrown ThrownBy(Action &&action) {
  try {
    action();
  } catch (const Error &error) {
    return {error.kind(), error.rule(), error.what()};
  }
  FAIL_CHECK("nothing was thrown");
  return {Kind::kRuntime, "none", ""};
}

}  // namespace opabi

/// Checks that the text of a Thrown has a part, and shows the text if it has not.
#define CHECK_SAYS(thrown, part) \
  do {                           \
    INFO((thrown).what);         \
    CHECK((thrown).Says(part));  \
  } while (false)
