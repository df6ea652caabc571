# `make run` starts the shell, `make test` runs the tests, `make check` is what CI runs.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=

.PHONY: run test check lint wheel docs clean

run: .venv/installed
	@$(BIN)/gptrepl $(ARGS)

test: .venv/installed-dev
	$(BIN)/python -m pytest --numprocesses=2 --cov --cov-report=term:skip-covered \
		--cov-fail-under=90 $(ARGS)

check: lint test wheel

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The wheel, alone in a fresh environment and away from this checkout, runs a session.
wheel: .venv/installed-dev
	rm -rf build/wheel
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint constraints.txt build/wheel/*.whl
	cd build/wheel && sh ../../tests/wheel.sh venv/bin

# The README's tables and its picture, made anew from the program.
docs: .venv/installed-dev
	$(BIN)/python tests/test_readme.py
	$(BIN)/python docs/picture.py

.venv/python:
	@echo "making .venv: the packages take a minute to install" >&2
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/python pyproject.toml constraints.txt
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/python pyproject.toml constraints.txt
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ .venv/installed

clean:
	rm -rf .venv build dist
