# `make demo` and `make test` set everything up by themselves: a virtual
# environment in .venv, filled from the package index. They need Python 3.11 or
# newer and, for the compiled parts, a C++ compiler (without one the portable ones
# are used).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo test test-portable static check bench bench-quick fuzz sanitize clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

# One stamp for each set of extras: set-up runs again when pyproject.toml changes.
$(VENV)/.stamp-%: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "streameval needs Python 3.11 or newer; found $$($(PYTHON) --version). Try make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making the virtual environment $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing streameval[$(subst -,$(comma),$*)] into $(VENV) (a minute or two the first time)"
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(subst -,$(comma),$*)]'
	@touch $@

comma := ,

demo: $(VENV)/.stamp-demo  ## replay real streams through online models and evaluate them
	@$(BIN)/python -m demos.run

test: $(VENV)/.stamp-demo-test  ## the whole test suite
	$(BIN)/python -m pytest -n 2 -q

test-portable: $(VENV)/.stamp-demo-test  ## the same without compiled code
	STREAMEVAL_BACKEND=portable $(BIN)/python -m pytest -n 2 -q

static: $(VENV)/.stamp-check-demo-test  ## linters and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: static test  ## linters, types and tests

bench: $(VENV)/.stamp-bench  ## measure against River, scikit-learn and sortedcontainers; writes benchmarks/results.md
	$(BIN)/python -m benchmarks.run

bench-quick: $(VENV)/.stamp-bench  ## the same, smaller, in a minute
	$(BIN)/python -m benchmarks.run --quick

fuzz: $(VENV)/.stamp-demo-test  ## random operations and random files, for a few minutes
	$(BIN)/python -m tests.fuzz_native_index --operations 3000000 --seed $(SEED)
	$(BIN)/python -m tests.fuzz_state_file --seconds 120 --seed $(SEED)

# In a copy, so that the ordinary build stays. Python itself does not link the
# sanitiser, so its library is loaded first; leaks of the interpreter are its own.
sanitize: $(VENV)/.stamp-demo-test  ## the compiled parts' tests under address and undefined-behaviour sanitisers
	rm -rf build/sanitize && mkdir -p build/sanitize
	cp -r streameval tests setup.py pyproject.toml README.md build/sanitize
	rm -f build/sanitize/streameval/native/*.so
	$(BIN)/python -m pip install --quiet 'setuptools>=77' 'Cython>=3'
	cd build/sanitize && STREAMEVAL_SANITIZE=1 STREAMEVAL_NATIVE=require ../../$(BIN)/python setup.py --quiet build_ext --inplace
	cd build/sanitize && PYTHONPATH=. PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ../../$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_native_index.py tests/test_native_label_sums.py

clean:  ## remove what the commands above made
	rm -rf $(VENV) build demos/out *.egg-info streameval/native/*.so
