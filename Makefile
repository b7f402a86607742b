# The recipes of this repository. `make` alone lists them.

PYTHON ?= python3
# The interpreter of that name, also where it is installed and not on the PATH.
INTERPRETER := $(shell scripts/find-python "$(PYTHON)")

# Every Python that is named has an environment of its own.
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
# How many processes share the tests: one for each core, and three at least, because most tests wait
# more than they work.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); [ "$$cores" -gt 3 ] && echo "$$cores" || echo 3)
# The browser and the servers that they start stay until the end of their process.
BROWSER_TESTS := tests/server/console
# The folders under tests/ to test. `make parts` has its own; `make oldest` and `make newest` test all.
PARTS ?=
parts: PARTS := $(or $(PARTS),store cli tools)
# The event loops on which `make core` runs its tests.
LOOPS ?= asyncio,uvloop
# The share of lines that the tests must reach, in percent.
COVERAGE := 88
# What counts the lines; it makes the tests slower by a quarter.
coverage: COUNTED := --cov --cov-report=
# The extras that `make run` and `make demo` use.
RUN_EXTRAS := agent cli mcp openapi server
# What to pass to `make lock`: LOCK_FLAGS=--upgrade takes the newest allowed versions.
LOCK_FLAGS ?=
COMPILE = $(VENV)/.uv/bin/uv --no-config pip compile --universal --python-version 3.11 --generate-hashes \
	--quiet --no-header --no-emit-index-url --no-emit-find-links --system-certs
# Every extra, and what the tests and checks need.
EVERYTHING := pyproject.toml --all-extras --group dev

.DEFAULT_GOAL := help
.SHELLFLAGS := -eu -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
# The checks run in the order written, also under `make -j`.
.NOTPARALLEL:
.DELETE_ON_ERROR:

# An environment that the caller has active must not leak into this one.
unexport PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONOPTIMIZE PYTHONWARNINGS PYTHONDEVMODE
unexport VIRTUAL_ENV CONDA_PREFIX MYPYPATH

.PHONY: help run demo test coverage quick core parts oldest newest frameworks explore judges lint types bench bench-peers docs lock clean \
	environment small-environment programs python .venv

help: ## list the recipes
	@echo "usage: make RECIPE"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

run: small-environment ## serve the example tools, with the console, and print a link that signs you in
	@$(BIN)/python examples/console.py

demo: small-environment ## a guided run in the terminal
	@$(BIN)/wieldy demo

test: lint programs ## lint, types and every test
	@echo "Checking types, and running the tests of the console in a browser"
	@scripts/beside "$(BIN)/python -m mypy" \
		scripts/run-tests $(BIN)/python -n $(WORKERS) --dist loadfile $(BROWSER_TESTS) $(COUNTED)
	@echo "Running the other tests"
	@scripts/run-tests $(BIN)/python -n $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore=$(BROWSER_TESTS) \
		$(COUNTED) $(if $(COUNTED),--cov-append --cov-fail-under=$(COVERAGE))

coverage: test ## the same, and the share of lines that the tests reach

quick: lint types ## lint, types and the tests of what has changed
	@scripts/changed-tests | xargs --no-run-if-empty $(BIN)/python -m pytest -n $(WORKERS) -x

core: environment ## the tests of the engine, on both event loops, or on LOOPS=asyncio
	@echo "Running the engine's tests on $(LOOPS)"
	@WIELDY_LOOPS=$(LOOPS) $(BIN)/python -m pytest -n $(WORKERS) tests/core tests/execution tests/wire tests/test_toolbox.py

parts: environment programs ## the tests of some folders: PARTS="store cli tools"
	@echo "Running the tests of $(PARTS)"
	@scripts/run-tests $(BIN)/python -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PARTS:%=tests/%)

oldest: environment programs ## run the tests with the oldest packages that pyproject.toml allows
	@scripts/test-packages $(BIN)/python requirements/oldest.txt $(WORKERS) $(PARTS)

newest: environment programs ## run the tests with the newest packages that pyproject.toml allows
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	echo "Looking for the newest packages"; \
	$(COMPILE) $(EVERYTHING) --output-file "$$folder/newest.txt"; \
	$(BIN)/python scripts/compare-locks requirements/dev.txt "$$folder/newest.txt"; \
	scripts/test-packages $(BIN)/python "$$folder/newest.txt" $(WORKERS) $(PARTS)

frameworks: environment ## install wieldy[all] beside today's other frameworks
	@$(BIN)/python scripts/try-frameworks

explore: environment ## run the tests that draw their examples on new ones
	@WIELDY_EXAMPLES=default $(BIN)/python -m pytest -n $(WORKERS) $$(grep -rl "from hypothesis" tests --include='test_*.py')

judges: environment ## run the outside suites in judges/
	@scripts/run-judges

lint: environment ## check style and formatting
	@echo "Checking style"
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

types: environment ## check types
	@echo "Checking types"
	@$(BIN)/python -m mypy

bench: environment ## measure wieldy
	@scripts/install-postgres
	@$(BIN)/python -m bench

bench-peers: environment ## measure wieldy beside other libraries
	@$(BIN)/python -m bench.peers

docs: environment ## build the documentation as a site in build/site
	@echo "Building the documentation"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean
	@echo "It is in build/site/index.html"

lock: environment ## compile the files in requirements/
	@echo "Compiling requirements/dev.txt"
	@$(COMPILE) $(LOCK_FLAGS) $(EVERYTHING) --output-file requirements/dev.txt
	@echo "Compiling requirements/oldest.txt"
	@# Kept versions would hide that a bound was lowered.
	@$(COMPILE) --upgrade $(EVERYTHING) --resolution lowest-direct --output-file requirements/oldest.txt
	@echo "Compiling requirements/run.txt"
	@$(COMPILE) $(LOCK_FLAGS) pyproject.toml $(RUN_EXTRAS:%=--extra %) --group build \
		--constraints requirements/dev.txt --no-annotate --output-file requirements/run.txt
	@for name in uv judges-agently judges-agentscope judges-mcp1 judges-mcp2; do \
		echo "Compiling requirements/$$name.txt"; \
		$(COMPILE) $(LOCK_FLAGS) requirements/$$name.in --output-file requirements/$$name.txt; \
	done

clean: ## remove everything the recipes made
	@rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +

.venv: environment

environment: python
	@"$(INTERPRETER)" scripts/make-environment --project $(VENV) requirements/dev.txt

# What the tests start that is not a Python package.
programs:
	@scripts/install-postgres
	@scripts/install-program bwrap bubblewrap
	@scripts/install-program chromium chromium chromium-sandbox
	@scripts/install-program systemd-analyze systemd

# What running needs. The packages of the tests contain it.
small-environment: python
	@"$(INTERPRETER)" scripts/make-environment --project $(VENV) requirements/run.txt requirements/dev.txt

python:
	@scripts/check-python "$(INTERPRETER)"
	@"$(INTERPRETER)" -c "from ensurepip import bootstrap" 2>/dev/null || scripts/install-venv "$(INTERPRETER)"
