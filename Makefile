# Every target sets up what it needs, once: a .venv from constraints.txt, Java for Spark and, for
# the tests and benchmarks, a RabbitMQ server.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Keep compiled Python files even where the environment says not to: without them every test worker
# compiles all tests and modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-brokers conformance unit unit-3.13 check bench docs dist try-extras clean

help: ## show this list
	@grep -E '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "controlmq needs Python 3.11 or later; set PYTHON=python3.11 or newer." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## watch a simulated consumer being modelled and settling on its goal
	@tools/need java
	$(BIN)/controlmq demo --out demo-report

test: $(STAMP) ## all tests, real broker included
	@tools/need java
	@tools/need rabbitmq
	@tools/need prometheus
	@tools/need chromium
	$(BIN)/python -m pytest tests -n 4

BROKERS := 3.10 4.0 4.3 container:3.10 container:4.0 container:4.3
test-brokers: $(STAMP) ## the live tests on every supported RabbitMQ, on private nodes and in containers
	@tools/test-brokers $(BROKERS)

CONFORMANCE := build/conformance.jsonl
conformance: $(STAMP) ## every client through all trials; stopped and started again, it goes on
	@tools/need rabbitmq
	@mkdir -p $(dir $(CONFORMANCE))
	$(BIN)/python -m benchmarks.client_conformance --state $(CONFORMANCE)

unit: $(STAMP) ## the quick tests: neither Spark nor a broker
	$(BIN)/python -m pytest tests -n 2 -m 'not live and not spark and not slow'

unit-3.13: ## the quick tests on Python 3.13, from Debian's newer release where there is none
	tools/with-python-3.13 $(MAKE) unit VENV=.venv-3.13 PYTHON=python3.13

check: $(STAMP) ## format, lint, types, who imports whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) ## every benchmark, as JSON
	@tools/need java
	@tools/need rabbitmq
	$(BIN)/python -m benchmarks

docs: $(STAMP) ## the documentation as web pages: open site/index.html
	$(BIN)/python -m sphinx -W --keep-going -E -q -c docs -d build/docs . site

dist: $(STAMP) ## the wheel and the source archive, in dist/
	rm -rf dist
	$(BIN)/python -m build

try-extras: dist ## install the wheel with each extra by itself, and run its commands
	@tools/need java
	tools/try-extras dist/*.whl $(BIN)/python

clean: ## remove what the targets above made
	rm -rf $(VENV) .venv-3.13 demo-report site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
