# Everything a contributor types. `make setup` needs Python >= 3.11 and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
AIR := $(BIN)/air

.PHONY: help setup quickstart check format test unit long lab bench docs

help:
	@echo "make setup       the air command in .venv, with everything to develop it"
	@echo "make quickstart  setup, then train a small language model with Ray on this machine"
	@echo "make check       format, lint, types, imports, sizes, generated reference"
	@echo "make test        every test (unit: make unit)"
	@echo "make long        every test, those that take minutes too"
	@echo "make lab         the tests on a real Slurm of several nodes, all of them (needs root on Linux)"
	@echo "make bench       side-by-side measurements, printed as ratios"
	@echo "make docs        regenerate docs/reference"

setup: $(VENV)/.ready

# uv itself comes from pip, into .venv, where the machine has none; pip's index settings reach it through tools/uv_settings.py.
$(VENV)/.ready: pyproject.toml uv.lock tools/uv_settings.py
	@$(PYTHON) -c 'import sys; sys.exit("Airlane and the environments it builds need Python 3.11 to 3.13; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 $(MAKECMDGOALS)") if not (3, 11) <= sys.version_info[:2] <= (3, 13) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	$(BIN)/python tools/uv_settings.py $(UV) sync --quiet --frozen --inexact --compile-bytecode
	$(BIN)/python -m compileall -q src
	@touch $@

quickstart: setup
	$(AIR) run -f examples/ray-train/train.yaml --watch

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -q tests/house

unit: setup
	$(BIN)/pytest -q tests/unit tests/house

# Two workers: one starts clusters, one after the other; beside it, the other runs everything else.
test: setup
	$(BIN)/pytest -n 2

long: setup
	AIR_LONG_TESTS=1 $(BIN)/pytest -n 2

# The cluster on this machine (root, Linux, Slurm, Docker), with the tests that take minutes.
lab: setup
	AIR_LONG_TESTS=1 $(BIN)/pytest tests/lab

bench: setup
	$(BIN)/python bench/run.py

docs: setup
	$(BIN)/python tools/generate_reference.py
