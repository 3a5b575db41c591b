# Two commands do everything on a fresh machine with Python 3.11 or later: `make up` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= $(CURDIR)/.fallow

.PHONY: campaign chaos container deb dist up demo install test test-slow test-all test-upgrade lint types check hooks

up: install ## start the service and the dashboard, print the URL
	@$(BIN)/fallow up --or-simulated --data "$(DATA)"

demo: $(VENV)/.installed ## play six stories with real processes on GPUs that aren't there, about three minutes
	@$(BIN)/python -m examples.demo

install: $(VENV)/.installed ## make the environment alone

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Fallow needs Python 3.11 or later; set PYTHON=python3.x")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,train]'
	@touch $@

test: $(VENV)/.tested ## the quick tests, on all cores: minutes; what one runs all day
	@tests/real_parts.sh
	@PYTHON=$(BIN)/python tests/run.sh quick

test-slow: $(VENV)/.tested ## the rest: real processes, browsers, and what takes over a second
	@tests/real_parts.sh
	@PYTHON=$(BIN)/python tests/run.sh slow

test-all: export FALLOW_LONG = 1
test-all: test test-slow ## both, with the tests that take minutes each

test-upgrade: $(VENV)/.tested ## a store of FROM=COMMIT, opened by this version
	@$(BIN)/python -m tests.upgrade $(FROM)

lint: $(VENV)/.tested ## formatting, lint and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell .

types: $(VENV)/.tested ## mypy, strict
	$(BIN)/mypy

hooks: $(VENV)/.tested ## have git run lint and types on what changed, before each commit
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pre-commit install

dist: $(VENV)/.installed ## the wheel and the source distribution, in dist/
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt build
	@rm -rf dist build
	@git describe --always --dirty --abbrev=12 --exclude='*' > service/commit.txt
	@$(BIN)/python -m build --outdir dist . > /dev/null; status=$$?; rm -rf service/commit.txt build; exit $$status
	@ls dist

deb: dist ## the Debian package for this machine's release and architecture, in dist/
	@$(BIN)/python packaging/debian/build.py dist/fallow_gpu-*.whl dist

BUILDER ?= $(shell command -v podman || command -v docker || command -v buildah)
container: dist ## the container image `fallow`, by podman, docker or buildah; BASE=IMAGE is what it is built on
	@test -n "$(BUILDER)" || { echo "none of podman, docker and buildah is installed" >&2; exit 1; }
	@rm -rf dist/wheels
	@$(BIN)/python -m pip download --quiet --dest dist/wheels --constraint constraints.txt dist/fallow_gpu-*.whl
	$(BUILDER) build $(BUILD_FLAGS) --file packaging/container/Containerfile --tag fallow $(if $(BASE),--build-arg BASE=$(BASE)) .

MINUTES ?= 3
chaos: $(VENV)/.tested ## random faults on a busy queue for MINUTES minutes, as root: kills, floods, forgeries, garbage, full and failing disks
	@tests/real_parts.sh
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

KILLS ?= 200
FIRST ?= 0
campaign: $(VENV)/.tested ## KILLS kills of Slurm's daemons, the service, agents and launchers amid Fallow's verbs, as root; SEED=N, FIRST=K goes on at kill K; WHOLE=1: of the whole service
	@tests/real_parts.sh
	$(BIN)/python -m tests.campaign --kills $(KILLS) --first $(FIRST) $(if $(SEED),--seed $(SEED)) $(if $(WHOLE),--whole)

check: lint $(VENV)/.tested ## all that CI asks for; types beside the quick tests, which leave a core idle now and then
	@tests/real_parts.sh
	@$(BIN)/mypy & types=$$!; PYTHON=$(BIN)/python tests/run.sh quick; tests=$$?; wait $$types && exit $$tests
	@$(MAKE) test-slow
