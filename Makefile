# Two commands do everything: `make demo` and `make test`. Both create .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The lists are complete: pip compares the hash of each wheel, and neither adds nor builds a package.
LISTED := $(PIP) install --quiet --no-deps --only-binary :all: --require-hashes --requirement

.PHONY: demo test test-all fuzz bench lint types clean

demo: .venv/demo
	$(BIN)/whence demo

test: lint types .venv/test
	$(BIN)/pytest -n 2 -m "not kill"

test-all: lint types .venv/test
	$(BIN)/pytest -n 2

# 100,000 files, 1,000 folders and 200 kills, from one seed: about twenty minutes on two cores.
fuzz: .venv/test
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz

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

# PyTorch comes after the packages it needs and before Whence, which takes the version it finds.
.venv/demo: .venv/python pyproject.toml requirements/demo.txt requirements/torch.txt
	@echo "Installing. The first time takes a few minutes."
	$(LISTED) requirements/demo.txt
	$(PIP) install --quiet --requirement requirements/torch.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	$(PIP) check
	@touch $@

.venv/test: .venv/demo requirements/test.txt
	$(LISTED) requirements/test.txt
	$(PIP) check
	@touch $@

clean:
	rm -rf .venv demo runs
