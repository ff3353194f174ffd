# Two commands do everything: `make demo` and `make test`. Both set up a virtual environment first.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
comma := ,
PIP = $(BIN)/python -m pip install --disable-pip-version-check --no-input --constraint constraints.txt

# $(call install,WHAT): says one line; pip's own words, of which there are many, are shown if it fails.
define install
	@echo "Installing into $(VENV) (once; takes a few minutes) ..."
	@log=$$(mktemp) && { $(PIP) --editable "$(1)" >"$$log" 2>&1 || { cat "$$log"; rm -f "$$log"; exit 1; }; rm -f "$$log"; }
endef

.PHONY: demo test fuzz-tests fuzz fuzz-ci check clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	$(BIN)/python examples/reservoir/demo.py out/demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto

# The property tests with new examples each time; what fails is tried first the next time.
fuzz-tests: $(VENV)/.installed-dev
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n auto -m hypothesis

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

MINUTES ?= 10

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m fuzz --minutes $(MINUTES)

fuzz-ci: $(VENV)/.installed-dev
	$(BIN)/python -m fuzz --minutes 2 --problems 600 --seed 1

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,.[rddl$(comma)train])
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,.[dev])
	@touch $(VENV)/.installed $@
