# make demo | test | test-browser | test-spark | test-whole | test-oldest | test-newest | test-petastorm | check | bench | docs | dist | format | clean.
# Everything is installed into .venv; test-oldest, test-newest and test-petastorm have environments of their own.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
PETASTORM := .venv-petastorm
NEWEST := .venv-newest
BIN := $(VENV)/bin

.PHONY: demo test test-browser test-spark test-whole test-oldest test-newest test-petastorm check bench docs dist screenshots format clean

demo: $(VENV)/.demo
	@$(BIN)/python examples/demo.py

# Tests wait for servers and processes as well as they compute, so a processor has two workers. What measures time runs
# alone, after the others. `make check` runs tests/tree.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * len(os.sched_getaffinity(0))))')
PYTEST := $(BIN)/python -m pytest --ignore tests/tree
# pytest imports each file that it looks for tests in.
ALONE := $(shell grep -rlw pytest.mark.alone tests --include 'test_*.py')
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
ELSEWHERE := not browser and not spark

test: $(VENV)/.test
	$(PYTEST) $(SIDE_BY_SIDE) -m "not alone and $(ELSEWHERE)"
	$(PYTEST) -m "alone and $(ELSEWHERE)" $(ALONE)
	@echo "The viewer's pages were not looked at: make test-browser, which needs Chromium."
	@echo "Spark was not run: make test-spark, which needs Java."

# The viewer's pages in a real browser.
test-browser: $(VENV)/.test
	@command -v chromium chromium-browser google-chrome chrome >/dev/null || \
	    { echo "Chromium is not on the PATH; install it: apt-get install chromium" >&2; exit 1; }
	$(PYTEST) tests/viewer -m browser

test-spark: $(VENV)/.test
	@command -v java >/dev/null || \
	    { echo "Java 17 or later is not on the PATH; install it: apt-get install default-jre-headless" >&2; exit 1; }
	$(PYTEST) tests/interop/spark -m spark

# The same tests, the long ones with all their rounds: more than an hour.
test-whole: export HUBARRAY_TESTS := whole
test-whole: PYTEST += --timeout 1200
test-whole: test test-browser test-spark

# The same tests, or TESTS of them, on the oldest packages that setup.cfg allows.
TESTS ?=
test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest $(TESTS)

# The tests that need neither PyTorch, TensorFlow, Spark, PyAV nor a browser, on the newest packages of another Python.
# tests/conftest.py lists what is left out, and the run prints it.
NEWEST_PYTHON ?= $(shell ls -d $(HOME)/.pyenv/versions/3.13.*/bin/python 2>/dev/null | tail -1 || command -v python3.13)
test-newest: export HUBARRAY_TESTS := newest
ifeq ($(NEWEST_PYTHON),)
test-newest:
	@echo "There is no Python 3.13, so nothing was run; name another one: make test-newest NEWEST_PYTHON=..." >&2
else
test-newest: $(NEWEST)/.test
	$(NEWEST)/bin/python -m pytest $(SIDE_BY_SIDE) -m "not alone and $(ELSEWHERE)" tests --ignore tests/tree
	$(NEWEST)/bin/python -m pytest -m "alone and $(ELSEWHERE)" $(ALONE)
endif

# Petastorm itself reads what is written for it.
test-petastorm: $(VENV)/.test $(PETASTORM)/.test
	$(BIN)/python tests/try_petastorm.py $(PETASTORM)/bin/python

check: $(VENV)/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --strict --config-file=/dev/null --follow-imports=silent tests/typed/program.py
	$(BIN)/basedpyright --project tests/typed --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --noconftest -q tests/tree

# Hours; with MEGABYTES=30, a look at everything.
MEGABYTES ?= 1000
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --megabytes $(MEGABYTES)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -j auto -q -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

# An sdist, a wheel made from it, and a look at whether the wheel is all that a new environment needs.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/try_wheel.py dist/*.whl

# The viewer's pages for the documents; needs Chromium.
screenshots: $(VENV)/.test
	$(BIN)/python examples/screenshots.py docs/images

format: $(VENV)/.check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) $(PETASTORM) build dist docs/_build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.test: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test,frameworks]'
	@touch $@

$(VENV)/.demo $(VENV)/.check $(VENV)/.bench $(VENV)/.docs $(VENV)/.dist: $(VENV)/.%: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

# What Petastorm 0.13.1 runs on: it was written for these.
$(PETASTORM)/.test:
	$(PYTHON) -m venv --clear $(PETASTORM)
	$(PETASTORM)/bin/python -m pip install --quiet petastorm==0.13.1 pyarrow==14.0.2 'numpy<2' 'pyspark==3.5.*' \
	    'setuptools<70' 'pandas<3' 'opencv-python-headless<4.12'
	@touch $@

$(OLDEST)/.test: setup.cfg pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(PYTHON) tests/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt --editable '.[test,frameworks]'
	@touch $@

$(NEWEST)/.test: setup.cfg pyproject.toml
	$(NEWEST_PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade pip
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	@touch $@
