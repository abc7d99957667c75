# Two commands matter: `make demo` shows the service at work, `make test` proves it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests share the machine with databases, git and sandboxes of their own: two at a time.
JOBS   ?= 2
PYTEST_ARGS ?=

RUN_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help install install-dev check test demo bench lock clean system-run system-test

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: system-run $(RUN_STAMP) ## Install, then watch a job become a pull request
	@$(BIN)/agentjobs demo

test: check system-test ## Run the checks, then every test
	@$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

check: $(DEV_STAMP) ## Lint, formatting, types, import contracts, lock files, dependency audit
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_locks.py requirements.lock requirements-dev.lock
	@$(BIN)/python scripts/audit.py requirements.lock requirements-dev.lock

install: $(RUN_STAMP) ## Make .venv/bin/agentjobs from the lock file
	@echo "Installed: $(BIN)/agentjobs"

install-dev: $(DEV_STAMP) ## The same, with the tools for checks and tests

bench: system-test $(DEV_STAMP) ## Measure the service against the same server without a store
	@$(BIN)/python -m bench

lock: $(DEV_STAMP) ## Resolve the dependencies again and rewrite both lock files
	@$(BIN)/python scripts/lock.py

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP): requirements.lock pyproject.toml scripts/install.py
	@$(PYTHON) scripts/install.py $(VENV) requirements.lock
	@touch $@

$(DEV_STAMP): $(RUN_STAMP) requirements-dev.lock
	@$(PYTHON) scripts/install.py $(VENV) requirements-dev.lock
	@touch $@

system-run:
	@scripts/system-packages bubblewrap git

system-test:
	@scripts/system-packages bubblewrap git postgresql curl gcc nodejs
