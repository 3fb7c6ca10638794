#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the core with each sanitizer and runs its tests, and its fuzzers, which start no threads.
#   tools/sanitize.sh "address,undefined thread" INPUTS
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MAKELEVEL # cmake's own make is not a part of ours

for sanitizer in $1; do
  build=build/sanitize-${sanitizer//,/-}
  cmake -S . -B "$build" -DOPABI_PYTHON=OFF -DOPABI_TESTS=ON -DOPABI_SANITIZE="$sanitizer" >/dev/null
  cmake --build "$build" --parallel "$(nproc)"
  echo "== core tests, $sanitizer"
  "$build/core_tests"
  [ "$sanitizer" != thread ] || continue
  for fuzzer in $(find "$build" -maxdepth 1 -name 'fuzz_*' -type f); do
    echo "== $(basename "$fuzzer"), $sanitizer, $2 inputs"
    "$fuzzer" "$2"
  done
done
