# Two commands do everything: `make demo` and `make test`. Both create .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

.PHONY: demo test test-all bench lint types clean

demo: .venv/demo
	$(BIN)/whence demo

test: lint types .venv/test
	$(BIN)/pytest -n 2 -m "not kill"

test-all: lint types .venv/test
	$(BIN)/pytest -n 2

bench: .venv/demo
	$(BIN)/python bench/run.py

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test
	$(BIN)/mypy --strict

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit("Whence needs Python 3.11 or newer. Run: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@touch $@

# PyTorch is installed first and alone: its version is pinned, and no later package may change it.
# Without the demonstration data, the demo uses a synthetic world.
.venv/demo: .venv/python $(SOURCES)
	@echo "Installing. The first time takes a few minutes."
	$(PIP) torch
	$(PIP) --editable ".[demo]" || $(PIP) --editable .
	@touch $@

.venv/test: .venv/demo
	$(PIP) --editable ".[test]"
	@touch $@

clean:
	rm -rf .venv demo runs
