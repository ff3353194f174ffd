# Two commands do everything: `make demo` and `make test`. Both set up a virtual environment first.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check fuzz fuzz-ci clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	$(BIN)/python examples/reservoir/demo.py out/demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

MINUTES ?= 10

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m fuzz --minutes $(MINUTES)

fuzz-ci: $(VENV)/.installed-dev
	$(BIN)/python -m fuzz --minutes 2 --seed 1

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[rddl,train]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[dev]"
	touch $(VENV)/.installed $@
