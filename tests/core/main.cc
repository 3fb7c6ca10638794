// SPDX-License-Identifier: Apache-2.0
// The entry point of the one binary that holds all of the core's tests.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
