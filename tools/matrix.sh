#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests with several releases of DALI, each in an environment of its own, against the installed package.
#   tools/matrix.sh PYTHON "2.2.0 2.3.0" TESTS...
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 releases=$2
shift 2

rm -rf build/matrix build/lib.*
"$python" -m pip wheel --quiet --no-deps --wheel-dir build/matrix .
failed=()
for release in $releases; do
  venv=.venv-dali-$release
  [ -d "$venv" ] || "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps build/matrix/*.whl
  "$venv/bin/pip" install --quiet --disable-pip-version-check \
    "$(echo build/matrix/*.whl)[numba]" "nvidia-dali-cuda120==$release" hypothesis pytest pytest-timeout
  echo "== DALI $release"
  "$venv/bin/pytest" -q "$@" || failed+=("$release")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed with DALI ${failed[*]}"
  exit 1
fi
