# One command per intention, the same on a laptop and in CI. `make help` lists them.

BIN := .venv/bin
LOCKS := service/deploy
PORT ?= 8000
export PORT

# The first Python that is new enough and can make an environment; asked for only when .venv is missing.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Stamps carry a checksum of what was installed, so an unchanged lock installs nothing, whatever git did to its date.
checksum = $(shell cat pyproject.toml $(1) | cksum | cut -d' ' -f1)
RUN_LOCKS := $(LOCKS)/requirements.txt $(LOCKS)/requirements-build.txt
DEV_LOCKS := $(LOCKS)/requirements-dev.txt
RUN_STAMP := .venv/.run-$(call checksum,$(RUN_LOCKS))
ORACLE := tests/oracle-requirements.txt
CLIENTS := clients
DEV_STAMP := .venv/.dev-$(call checksum,$(DEV_LOCKS) $(ORACLE) $(wildcard $(CLIENTS)/pyproject.toml))

# Byte code is left to the first import: compiling all of it takes longer than installing it.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile
LOCK = $(BIN)/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-header $(if $(UPGRADE),--upgrade)

define WELCOME

kvquote answers at http://127.0.0.1:$(PORT)/docs - stop it with Ctrl-C. Open this, or ask it from another terminal:

  http://127.0.0.1:$(PORT)/fit?model=llama-2-7b&gpu=a100-sxm-80gb&context_tokens=4096

  curl -s http://127.0.0.1:$(PORT)/fit -H 'Content-Type: application/json' -d '{"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}'

endef
export WELCOME

.DEFAULT_GOAL := help
.PHONY: help run install dev check test test-browser golden coverage fuzz soak bench lock

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: $(RUN_STAMP) ## set up, migrate, load the catalog and serve (PORT, DATABASE_URL)
	@$(BIN)/kvquote-server serve --check
	@$(BIN)/kvquote-server db upgrade
	@$(BIN)/kvquote-server catalog load
	@echo "$$WELCOME"
	@exec $(BIN)/kvquote-server serve

install: $(RUN_STAMP) ## only set up .venv with what the service needs

dev: $(DEV_STAMP) ## only set up .venv with what development and tests need

check: $(DEV_STAMP) ## lint, types, import rules and catalog files
	@$(BIN)/ruff check && $(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/kvquote-server catalog check

test: check ## everything, on SQLite and PostgreSQL (TEST_DATABASE_URL, PYTEST_ARGS)
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

test-browser: $(DEV_STAMP) ## look at the pages in Chromium, which has to be installed; not part of test
	@$(BIN)/python -m pytest -q tests/web/browser.py

golden: $(DEV_STAMP) ## rewrite tests/golden from today's answers; read the diff before you commit it
	@$(BIN)/python -m pytest -q --update-golden

coverage: $(DEV_STAMP) ## prove that tests/domain reach every branch of service/domain
	@$(BIN)/coverage run -m pytest -q tests/domain
	@$(BIN)/coverage report --include 'service/domain/*' --fail-under 100

fuzz: $(DEV_STAMP) ## damage start-up logs in 100,000 ways: does one ever say a wrong number? (half an hour)
	@$(BIN)/python -m tests.domain.logs.fuzzing

soak: $(DEV_STAMP) ## take measurements in while faults happen: is anything lost? (minutes)
	@$(BIN)/python -m tests.soak

bench: $(DEV_STAMP) ## measure speed and memory as ratios (minutes)
	@$(BIN)/python -m tests.benchmarks

lock: $(DEV_STAMP) ## write the locks from pyproject.toml (UPGRADE=1 takes the newest)
	@$(LOCK) pyproject.toml -o $(LOCKS)/requirements.txt
	@$(LOCK) --group build -c $(LOCKS)/requirements.txt -o $(LOCKS)/requirements-build.txt
	@$(LOCK) pyproject.toml --extra dev $(RUN_LOCKS:%=-c %) -o $(LOCKS)/requirements-dev.txt

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "kvquote needs Python 3.11 or newer with venv (or say make PYTHON=...)" >&2; exit 1; }
	@echo "kvquote: making .venv with $(PYTHON)"
	@$(PYTHON) -m venv --clear .venv

$(RUN_STAMP): | $(BIN)/python
	@echo "kvquote: installing what the service needs, once (10 to 20 s)"
	@$(INSTALL) --require-hashes $(RUN_LOCKS:%=-r %)
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@rm -f .venv/.run-* && touch $@

$(DEV_STAMP): | $(BIN)/python
	@echo "kvquote: installing what development needs, once (about a minute)"
	@$(INSTALL) --require-hashes -r $(DEV_LOCKS) && $(INSTALL) -r $(ORACLE)
	@$(INSTALL) --no-deps --no-build-isolation --editable . --editable ./$(CLIENTS)
	@rm -f .venv/.run-* .venv/.dev-* && touch $@ $(RUN_STAMP)
