# SPDX-License-Identifier: Apache-2.0
# The door to everything that is built, tested or measured. All goes into .venv*, build and dist.

PYTHON ?= python3
VENV ?= .venv
DALIS ?= 2.2.0 2.3.0 2.4.0
DALI_TESTS ?= tests/dali
SANITIZERS ?= address,undefined thread
FUZZ ?= 1000000
BIN = $(VENV)/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check
NATIVE = CMakeLists.txt setup.py pyproject.toml \
  $(wildcard include/opabi/* include/opabi/cpp/* src/core/* src/cuda/* src/python/*)

.PHONY: help demo test lint format matrix sanitize wheel bench clean

help:
	@echo "make demo      kernels on real JPEGs: demo.png and a table of times"
	@echo "make test      the tests, with one DALI"
	@echo "make lint      ruff, mypy, clang-format; make format mends the layout"
	@echo "make matrix    the operator's tests with DALI $(DALIS)"
	@echo "make sanitize  the core's tests and fuzzers with $(SANITIZERS)"
	@echo "make wheel     the wheel to release, with an operator for each DALI"
	@echo "make bench     the benchmarks"

demo: $(VENV)/has-demo
	$(BIN)/opabi demo --output demo.png

test: $(VENV)/has-test
	$(BIN)/pytest -q

lint: $(VENV)/has-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	git ls-files '*.c' '*.h' '*.cc' '*.hpp' '*.cu' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(VENV)/has-lint
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format
	git ls-files '*.c' '*.h' '*.cc' '*.hpp' '*.cu' | xargs $(BIN)/clang-format -i

matrix: $(VENV)/has-opabi
	tools/matrix.sh $(BIN)/python "$(DALIS)" $(DALI_TESTS)

sanitize:
	tools/sanitize.sh "$(SANITIZERS)" $(FUZZ)

wheel: $(VENV)/has-opabi
	$(BIN)/python tools/wheel.py $(DALIS)

bench: $(VENV)/has-bench
	$(BIN)/python tests/bench/run.py

clean:
	rm -rf $(VENV) .venv-dali-* build dist

# One environment, and in it a file for opabi and one for each extra that is installed. An extra is
# asked for of the opabi that is there, so that it is not built again.
$(VENV)/has-opabi: $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	@echo "Building opabi in $(VENV)"
	$(PIP) --editable .
	@touch $@

$(VENV)/has-%: $(VENV)/has-opabi
	@echo "Installing what 'make $*' needs in $(VENV): with DALI, some minutes the first time"
	$(PIP) 'opabi[$*]'
	@touch $@
