# Everything is set up on first use: `make run` and `make test` need Python 3.11 and make, nothing else.

PYTHON ?= python3
ARGS ?=

ROOT := $(CURDIR)
BIN := $(ROOT)/.venv/bin
# From an empty directory, so that only the installed `stopgo` can be imported, never a folder that lies beside the tests.
PYTEST := mkdir -p build/empty && cd build/empty && "$(BIN)/pytest" -c "$(ROOT)/pyproject.toml" --rootdir "$(ROOT)"
# Without the local wheels of this machine: their hashes would lock the project to it.
LOCK := env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND="make lock" "$(BIN)/pip-compile" --quiet --generate-hashes \
	--allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options

RUNTIME := .venv/.runtime
SETUP := .venv/.setup

# The tests start hundreds of processes; without bytecode files each of them would compile the product again.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help run test check all tests public-schemas docs deploy compose-up compose-down pin run-up run-down providers agents streams crash simulate replays mutants bench bench-replay build build-all matrix reference lock npm npm-servers neighbours page page-units postgres fleet figures soak screenshots conformance fuzz a2a-tck setup clean

help:
	@echo "For users"
	@echo "  make run          set up and serve (ARGS='--port 0' adds arguments)"
	@echo "  make test         set up and run the proof of the product: 1 to 2 minutes"
	@echo "                    (ARGS='-k gate' or ARGS='tests/config -x' selects from all tests instead)"
	@echo
	@echo "For each change"
	@echo "  make check        format, lint, types, and all tests that need no other program"
	@echo "  .ci/run           the gate: the same, and a slice of each family (SLICE=3/8 SEED=7 .ci/run repeats one)"
	@echo
	@echo "Before a release"
	@echo "  make all          everything, whole, with figures (make all FROM=agents begins there)"
	@echo
	@echo "Families, each of which ARGS='-k WORD' narrows"
	@echo "  make agents       delegate to chains of agents, to agents of others, and to some that lie"
	@echo "  make a2a-tck      the official A2A test kits, whose archives lie in A2A_KITS"
	@echo "  make conformance  the official MCP conformance suite, client side (needs npm)"
	@echo "  make crash        kill the server, replay every crash point"
	@echo "  make deploy       the files for operators; runs the compose file as processes"
	@echo "  make docs         every example of the documentation and of testdata/examples"
	@echo "  make fleet        three processes on one PostgreSQL, while something fails"
	@echo "  make fuzz         schemathesis with the API key of each role, from the OpenAPI document"
	@echo "  make matrix       install the wheel with each supported Python (ARGS=--all checks other platforms, too)"
	@echo "  make mutants      remove each safety clause and expect the tests to notice"
	@echo "  make neighbours   tool servers of other SDKs, agents of other makes: tables of what was seen (needs node, go, git)"
	@echo "  make npm          public tool servers, and clients of A2A and AG-UI (needs node)"
	@echo "  make page         the page in a real browser (needs node and chromium); page-units needs node only"
	@echo "  make postgres     the journal on a real PostgreSQL (needs the package postgresql)"
	@echo "  make providers    every model provider against everything that can go wrong with it"
	@echo "  make simulate     seeded stories of people, failures and crashes (ARGS=17 tells that one)"
	@echo "  make replays      random histories: what a replay says against what a second life does (ARGS=200 for fewer)"
	@echo "  make streams      watch live events in hundreds, over restarts and disconnects, and abuse the websocket"
	@echo
	@echo "Figures, which no gate compares"
	@echo "  make bench        measure"
	@echo "  make bench-replay replay a million recorded calls, from SQLite and from PostgreSQL"
	@echo "  make figures      measure the journal on PostgreSQL"
	@echo "  make soak         what takes ten minutes: kill -9 of members and servers all the time, and at each write"
	@echo
	@echo "Other"
	@echo "  make build        wheel and sdist into dist/; the wheel is for all platforms, so build-all is the same"
	@echo "  make npm-servers  npm packages of the tests into build/npm (needs node)"
	@echo "  make screenshots  take the pictures of docs/images (needs node and chromium)"
	@echo "  make public-schemas  try the tools of public servers of npm and PyPI in the dialect of each provider (needs node)"
	@echo "  make pin          pin the images of others by their digests (needs docker and the network)"
	@echo "  make reference    write the generated tables of docs/reference"
	@echo "  make lock         compile the lock files again after a change of the dependencies (ARGS=--upgrade)"
	@echo "  make clean        remove what was built; keeps data/ and .venv/"

run: $(RUNTIME)
	@STOPGO_ANY_PORT="make run ARGS='--port 0'" "$(BIN)/stopgo" serve $(ARGS)

# Two workers take files from one queue. A worker that ends ends the run: a test that hangs is not begun again.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
export STOPGO_NPM_DIR := $(ROOT)/build/npm
# ARGS with a path select the tests themselves, else the tests of a tier or a family.
PATHS := $(findstring tests/,$(ARGS))
CHOSEN = $(subst tests/,$(ROOT)/tests/,$(ARGS)) $(if $(FAILURES),--failures "$(FAILURES)")

test: $(SETUP)
	@$(PYTEST) $(if $(PATHS),,"$(ROOT)/tests" $(WORKERS) --tests $(if $(ARGS),light,proof)) $(CHOSEN)

# A stage of the tiers.
tests: $(SETUP)
	@$(PYTEST) "$(ROOT)/tests" $(WORKERS) $(CHOSEN)

check: $(SETUP)
	@./check

all: $(SETUP)
	@PATH="$(BIN):$$PATH" "$(BIN)/python" -m tests.tiers.run all $(FROM)

providers agents streams crash docs deploy postgres fleet: $(SETUP)
	@$(PYTEST) "$(ROOT)/tests" $(WORKERS) --family $@ $(CHOSEN)

npm page: $(SETUP) npm-servers
	@$(PYTEST) "$(ROOT)/tests" $(WORKERS) --family $@ $(CHOSEN)

bench figures soak: $(SETUP)
	@$(PYTEST) "$(ROOT)/tests" --family $@ -s $(CHOSEN)

compose-up: $(SETUP)
	@deploy/compose/make-keys "$(BIN)/stopgo"
	@docker compose up --build --detach --wait

pin:
	@deploy/pin-images

compose-down:
	@docker compose down

run-up: $(SETUP)
	@deploy/compose/make-keys "$(BIN)/stopgo"
	@"$(BIN)/python" -m tests.deployment.processes up

run-down: $(SETUP)
	@"$(BIN)/python" -m tests.deployment.processes down

# The order of sets of strings is a part of a story.
simulate: $(SETUP)
	@PYTHONHASHSEED=0 "$(BIN)/python" -W error -m tests.simulation.simulate $(ARGS)

replays: $(SETUP)
	@"$(BIN)/python" -m tests.actors.replay.histories $(ARGS)

bench-replay: $(SETUP)
	@"$(BIN)/python" -m tests.bench.replay_figures $(ARGS)

mutants: $(SETUP)
	@"$(BIN)/python" -m tests.crash.mutants $(ARGS)

# The wheel is made from the sdist: files left in build/ by an older tree cannot slip into it. Its files have the time of
# the commit, so that each build of a commit makes the same wheel.
build: $(SETUP)
	@rm -rf dist
	@export SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)}; \
	"$(BIN)/python" -m build --no-isolation --outdir dist .

build-all: build

matrix: build
	@"$(BIN)/python" -m tests.matrix $(ARGS)

page-units:
	@node --test tests/page/unit/*.test.mjs

screenshots: $(SETUP) npm-servers
	@"$(BIN)/python" -m tests.page.screenshots docs/images $(ARGS)

public-schemas: $(SETUP)
	@"$(BIN)/python" -m tests.public_schemas $(ARGS)

neighbours: $(SETUP)
	@"$(BIN)/python" -m tests.neighbours.run $(ARGS)

npm-servers: build/npm/.installed

build/npm/.installed: testdata/npm/package.json testdata/npm/package-lock.json
	@command -v npm >/dev/null || { echo "npm is needed for the public tool servers and the clients of A2A and AG-UI; install Node.js 20 or newer" >&2; exit 1; }
	@echo "installing npm packages into build/npm: up to a few minutes, once" >&2
	@mkdir -p build/npm
	@cp testdata/npm/package.json testdata/npm/package-lock.json build/npm/
	@npm ci --prefix build/npm --ignore-scripts --no-audit --no-fund
	@touch $@

conformance: $(SETUP) build/npm-conformance/.installed
	@"$(BIN)/python" -m tests.conformance.run $(ARGS)

build/npm-conformance/.installed: testdata/npm-conformance/package.json testdata/npm-conformance/package-lock.json
	@command -v npm >/dev/null || { echo "npm is needed for the conformance suite; install Node.js 20 or newer" >&2; exit 1; }
	@mkdir -p build/npm-conformance
	@cp testdata/npm-conformance/package.json testdata/npm-conformance/package-lock.json build/npm-conformance/
	@npm ci --prefix build/npm-conformance --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

fuzz: $(SETUP) build/schemathesis/.installed
	@"$(BIN)/python" -m tests.fuzz.fuzz_roles $(ARGS)

build/schemathesis/.installed: testdata/fuzz/requirements.txt
	@$(PYTHON) -m venv build/schemathesis/venv
	@build/schemathesis/venv/bin/python -m pip install --quiet --no-deps --require-hashes -r testdata/fuzz/requirements.txt
	@touch $@

a2a-tck: $(SETUP) build/a2a-tck/.installed
	@test -n "$(A2A_KITS)" || { echo "A2A_KITS must name the folder with the archives of the A2A test kits" >&2; exit 1; }
	@"$(BIN)/python" -m tests.a2a_tck.run_kits $(ARGS)

build/a2a-tck/.installed: testdata/a2a-tck/kit-requirements.txt
	@$(PYTHON) -m venv build/a2a-tck/venv
	@build/a2a-tck/venv/bin/python -m pip install --quiet -r testdata/a2a-tck/kit-requirements.txt
	@touch $@

reference: $(SETUP)
	@"$(BIN)/python" -m tests.reference_tables

lock: $(SETUP)
	@$(LOCK) --build-deps-for wheel \
		$(foreach extra,azure bedrock metrics postgres traces vertex,--extra $(extra)) -o requirements.lock $(ARGS) pyproject.toml
	@mkdir -p build
	@"$(BIN)/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' > build/dev.in
	@$(LOCK) --constraint requirements.lock -o requirements-dev.lock $(ARGS) build/dev.in
	@$(LOCK) -o testdata/fuzz/requirements.txt $(ARGS) testdata/fuzz/requirements.in

setup: $(SETUP)

# The locks are complete. Without --no-deps, pip would refuse them once a newer version of a package exists that others
# require with an extra.
$(RUNTIME): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@echo "installing what stopgo needs into .venv: up to a few minutes, once" >&2
	@$(PYTHON) -m venv .venv
	@"$(BIN)/python" -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	@PYTHONWARNINGS="ignore:Editable installation" "$(BIN)/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(SETUP): $(RUNTIME) requirements-dev.lock
	@echo "installing what the tests need into .venv: up to a few minutes, once" >&2
	@"$(BIN)/python" -m pip install --quiet --no-deps --require-hashes -r requirements.lock -r requirements-dev.lock
	@touch $@

clean:
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
