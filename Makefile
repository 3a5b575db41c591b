# Two commands do everything on a fresh machine with Python 3.11 or later: `make up` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= .fallow

.PHONY: up demo install test test-all lint types check hooks fresh

up: install ## start the service and the dashboard, print the URL
	@$(BIN)/fallow up --data $(DATA)

demo: $(VENV)/.installed ## play five stories with real processes on GPUs that aren't there, about two minutes
	@$(BIN)/python -m examples.demo

install: $(VENV)/.installed ## make the environment alone

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Fallow needs Python 3.11 or later; set PYTHON=python3.x")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,train]'
	@touch $@

test: $(VENV)/.tested ## make the test environment and pass the tests
	@tests/real_parts.sh
	@PYTHON=$(BIN)/python tests/run.sh

test-all: $(VENV)/.tested ## the same with the tests that take minutes
	@tests/real_parts.sh
	@FALLOW_LONG=1 PYTHON=$(BIN)/python tests/run.sh

lint: $(VENV)/.tested ## formatting, lint and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell .

types: $(VENV)/.tested ## mypy, strict
	$(BIN)/mypy

hooks: $(VENV)/.tested ## have git run lint and types on what changed, before each commit
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pre-commit install

check: lint types test ## all that CI asks for
