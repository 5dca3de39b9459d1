# What a developer types. `make` alone lists it.
# PYTHON=/path/to/python3 chooses the interpreter of a new .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export PYTHON
# The suite starts dozens of processes of Sash: without bytecode each would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin

.PHONY: help setup test check lint soak chaos concurrency demo fmt lock clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## make .venv: Java, Python packages as pinned in requirements.lock, sash itself
	@scripts/setup.sh

# mypy keeps one core busy for a minute or two: it works beside the tests and is heard at the end.
test: lint ## every check: lint, format, types, layering, tests
	@said=$$(mktemp); $(BIN)/mypy > $$said 2>&1 & types=$$!; \
	trap 'kill $$types 2> /dev/null; rm -f $$said' EXIT; trap 'exit 130' INT; \
	$(BIN)/pytest -q; tests=$$?; \
	wait $$types; wrong=$$?; echo "$(BIN)/mypy"; cat $$said; \
	exit $$((tests ? tests : wrong))

check: lint ## the checks without the tests: lint, format, types, layering
	$(BIN)/mypy

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/source_rules.py

soak: setup ## random programs against the oracle; wrong answers become tests (MINUTES=10, SEED=n)
	@$(BIN)/python -m sash.testing.soak $(or $(MINUTES),10) $(SEED)

chaos: setup ## kill runs of random programs again and again, and compare their output (MINUTES=10, SEED=n)
	@$(BIN)/python -m sash.testing.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(CHAOS)

concurrency: setup ## threads that ask, add and drop against one run, every answer checked (MINUTES=2, SEED=n, RUNTIME=inline)
	@$(BIN)/python -m sash.testing.concurrency $(or $(MINUTES),2) $(or $(SEED),0) $(or $(RUNTIME),inline)

demo: setup ## thirty seconds of packets, five standing queries, a live view
	@$(BIN)/sash demo

fmt: setup ## format and sort imports
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

lock: ## rewrite requirements.lock from pyproject.toml (UPGRADE=1: newest versions)
	@UPGRADE=$(UPGRADE) scripts/lock.sh

clean: ## remove .venv, caches and what runs leave behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build \
	  spark-warehouse metastore_db derby.log
	find src tests experiments -name __pycache__ -type d -prune -exec rm -rf {} +
