# Every command of the project. `make` alone lists them.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Corral needs Python 3.11 or newer; try: make up PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "error: 'python3 -m venv' failed; on Debian: apt install python3-venv" >&2; exit 1; }

# uv is several times faster and shows its progress; pip knows mirrors that uv has not been told of.
define install_locked
	@$(BIN)/uv pip install --python $(BIN)/python --compile-bytecode --require-hashes -r $(1) \
	  || { echo "uv could not do it; trying with pip, which takes longer" >&2; $(PIP) install --require-hashes -r $(1); }
endef

# The stamps say what has been installed; they are remade when what they stand on changes.
$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing Corral into $(VENV) (about 440 MB, once)" >&2
	@$(PIP) install --require-hashes -r requirements/build.txt
	$(call install_locked,requirements/run.txt)
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing what the tests and checks need" >&2
	$(call install_locked,requirements/dev.txt)
	@$(BIN)/python -m tools.fetch_registry
	@touch $@

.PHONY: install
install: $(VENV)/.run ## create .venv and install Corral into it

.PHONY: up
# The page is built beside it, if it has to be: the start waits for nothing, and Ctrl-C ends both.
up: $(VENV)/.run ## start a whole cluster on this machine, in the foreground until Ctrl-C
	@$(BIN)/python -m tools.page --beside & exec $(BIN)/corral up

.PHONY: page
page: $(VENV)/.run ## build the web page, if it is missing or older than its sources
	@$(BIN)/python -m tools.page

.PHONY: dev
dev: $(VENV)/.dev ## install what developing needs

.PHONY: check
check: $(VENV)/.dev ## formatter, linter, types, import rules, commit messages; warnings are errors
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tools.reference --check
	@$(BIN)/python -m tools.commits
	@$(BIN)/python -m tools.page check

.PHONY: format
format: $(VENV)/.dev ## format the code and fix what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: test
# FAST=1 takes what starts no server, SINCE=main what a change touches; both skip the checks that are not about tests.
ifdef FAST
test: $(VENV)/.dev
	@$(BIN)/python -m tools.test_lanes --fast $(ARGS)
else ifdef SINCE
test: $(VENV)/.dev
	@$(BIN)/python -m tools.page --may-lack
	@$(BIN)/python -m tools.test_lanes --since $(SINCE) $(ARGS)
else
test: check ## all checks and all tests (what CI runs); FAST=1: what needs no server, SINCE=main: what a change touches
	@$(BIN)/python -m tools.page test
	@$(BIN)/python -m tools.page --may-lack
	@$(BIN)/python -m tools.browser
	@$(BIN)/python -m compileall -q src # the tests start hundreds of processes, and Python may have been told to keep nothing
	@$(BIN)/python -m tools.test_lanes $(ARGS)
endif

.PHONY: test-training
test-training: $(VENV)/.dev ## train with the real library on a processor, and let llama.cpp answer (about 8 minutes; the first time it fetches torch, too)
	@$(BIN)/python -m pytest tests/training -o "python_files=test_*.py real_*.py" -p no:randomly $(ARGS)

.PHONY: dist
dist: page ## build the wheel (with the page) and the source archive into dist/; the same commit gives the same bytes
	@$(BIN)/python -m tools.dist

.PHONY: dist-test
dist-test: $(VENV)/.dev page ## install the wheel into an empty environment, start a cluster with it, join machines by /join, ask a model
	@$(BIN)/python -m pytest tests/packaging -o "python_files=test_*.py whole.py network.py tutorial.py" -o timeout=900

.PHONY: sim
sim: $(VENV)/.dev ## the simulated cluster on many seeds: make sim SEEDS=500
	@$(BIN)/python -m pytest tests/simulation -n auto --seeds=$(or $(SEEDS),200)

.PHONY: chaos
chaos: $(VENV)/.dev ## every fault with real processes, also the outages that take minutes
	@$(BIN)/python -m pytest tests/e2e/faults tests/e2e/gateway -o "python_files=test_*.py chaos.py" -n auto --maxprocesses 2 --dist worksteal

.PHONY: mutants
mutants: $(VENV)/.dev ## changes the product on purpose and counts what the tests notice: make mutants COUNT=200 SEED=1
	@$(BIN)/python -m tools.mutants --count $(or $(COUNT),200) --seed $(or $(SEED),1)

.PHONY: bench
bench: $(VENV)/.dev ## the benchmarks; their table is in docs/benchmarks.md
	@$(BIN)/python -m bench $(BENCH)

.PHONY: docs
docs: $(VENV)/.dev ## write the generated pages of docs/reference anew
	@$(BIN)/python -m tools.reference

.PHONY: screenshots
screenshots: $(VENV)/.dev ## take the pictures of docs/pictures anew, of a cluster that is made for it
	@$(BIN)/python -m tools.screenshots

.PHONY: lock
lock: $(VENV)/.dev ## compile the hash-pinned requirement files anew
	@$(BIN)/python -m tools.lock

.PHONY: clean
clean: ## remove the virtual environment, the built page and caches
	@rm -rf src/corral/api/page/built ui/node_modules .cache/page
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
