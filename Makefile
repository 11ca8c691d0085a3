# `make demo` shows everything at work; `make test` runs all tests. Both set up what they need below this directory.
# Prerequisites: Python 3.11+, Rust 1.95+, Node 20+, a C compiler, git, make.

PYTHON ?= python3
VENV := .venv
PEERS_VENV := .venv-peers
WHEEL_VENV := .venv-wheel
PY := $(VENV)/bin/python
DRIVER := runners/driver/target/release/speedbench
RUST = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' runners/driver/Cargo.toml)
# What `make archive`, `make wheel` and `make release` make lies there.
DIST ?= dist
# The driver's tests with real servers need all of these; if one is missing, they are left out and the last line says so.
REAL_SERVERS := redis-server redis-benchmark redis-cli memcached openssl
ABSENT = $(foreach program,$(REAL_SERVERS),$(if $(shell command -v $(program)),,$(program)))

.PHONY: demo serve up install wheel archive release try-fresh-debian newcomer history quick test test-server test-pages \
	test-driver check check-server check-driver check-pages bench bench-scale bench-driver chaos detection-eval pictures setup lock clean help

help:            ## show this list
	@sed -n 's/^\([a-z-]*\): *[^#]*## /\1\t/p' Makefile

demo: setup      ## track the sample server, measure its history, show the alert, go on serving
	@$(PY) manage.py demo

serve: setup     ## web server, dispatcher, worker and runner on this machine
	@$(PY) manage.py serve

up: $(VENV)/.runtime frontend/dist/.built ## the server of a host without Docker, in the foreground: docs/installing.md
	@$(PY) manage.py up

install: frontend/dist/.built ## as root: the server as services that start with the host: URL=https://speed.example.org
	deploy/install $(URL)

setup: $(VENV)/.runtime $(DRIVER) frontend/dist/.built

quick: $(VENV)/.development ## style, types and nearest tests of what has changed, in two minutes: SINCE=main
	@.ci/quick

# The server's tests and the driver's run side by side, as each leaves a core idle at times; their output may be mixed.
test:            ## all tests: Python on a real PostgreSQL, Rust, TypeScript, a browser
	@$(MAKE) --no-print-directory --jobs 2 test-server test-pages test-driver
	@$(if $(strip $(ABSENT)),echo "left out: the driver's tests with real servers: not on PATH:$(ABSENT)",:)

test-server: setup check-server
	MAKEFLAGS= $(PY) -m pytest --numprocesses $$(($$(nproc) + 1))  # a third of the time a worker waits

test-pages: check-pages
	npm --prefix frontend test

test-driver: check-driver
	cd runners/driver && cargo test --quiet --locked --tests $(if $(strip $(ABSENT)),,--features real-servers)

check: check-server check-driver check-pages ## style, types and the arrows between the rooms

check-server: $(VENV)/.development
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/djangofmt --check speedtrack  # names the files
	$(VENV)/bin/mypy
	PYTHONPATH=client $(VENV)/bin/lint-imports --no-logo
	$(PY) manage.py makemigrations --check --dry-run

check-driver:
	cd runners/driver && cargo fmt --all --check
	cd runners/driver && cargo clippy --quiet --locked --all-targets --features real-servers -- -D warnings

check-pages: frontend/node_modules/.installed
	npm --prefix frontend run --silent check

$(VENV)/.runtime: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.development: requirements-dev.txt | $(VENV)/.runtime
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

DRIVER_SOURCES := runners/driver/Cargo.lock runners/driver/Cargo.toml \
	$(shell find runners/driver/src runners/driver/crates -path '*/src/*.rs' -o -name Cargo.toml)

$(DRIVER): $(DRIVER_SOURCES)
	@printf '%s\n' $(RUST) "$$(cd runners/driver && cargo --version | cut -d' ' -f2)" | sort --check=silent --version-sort \
		|| { echo "error: Rust $(RUST) or newer is needed: https://rustup.rs" >&2; exit 1; }
	cd runners/driver && cargo build --release --locked
	@touch $@

frontend/node_modules/.installed: frontend/package-lock.json
	npm --prefix frontend ci --no-audit --no-fund --loglevel=error
	@touch $@

# A release archive carries the pages as they are built, so nothing of it needs npm.
ifneq ($(wildcard .git)$(if $(wildcard frontend/dist/.built),,unbuilt),)
frontend/dist/.built: frontend/node_modules/.installed frontend/package.json frontend/build.mjs $(shell find frontend/src -type f)
	npm --prefix frontend run --silent build
	@touch $@
endif

bench: $(if $(SCALE),bench-scale,bench-driver) ## the driver's speed compared with redis-benchmark, valkey-benchmark and memtier; QUICK=1, WRITE=1 into docs/driver.md, JSON=file, MEMTIER=program, VALKEY=program; SCALE=1 [ROWS=10M] [SHAPE=grid]: pages and verbs on large databases, WRITE=1 into docs/scale.md

bench-scale: setup
	$(PY) -m research.scale $(if $(SHAPE),--shape $(SHAPE)) $(if $(ROWS),--rows $(ROWS)) $(if $(WRITE),--write docs/scale.md)

bench-driver: $(DRIVER)
	cd runners/driver && cargo build --quiet --release --locked --example null-server
	@$(PYTHON) runners/driver/bench $(if $(QUICK),--quick) $(if $(WRITE),--write docs/driver.md) \
		$(if $(JSON),--json $(JSON)) $(if $(MEMTIER),--memtier $(MEMTIER)) $(if $(VALKEY),--valkey-benchmark $(VALKEY))

chaos: setup     ## break a whole installation at random, let it heal, check it: MINUTES=10, SEED=, RUNS=300, KEEP=1
	@$(PY) -m research.chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) \
		$(if $(KEEP),--keep)

detection-eval: $(VENV)/.runtime ## how well changes are found; QUICK=1, LINES=16, HARNESS=folder DATA=folder, PEERS=1, ONLY=part,part, RESUME=1, WRITE=1 into docs/detection.md
	@$(if $(PEERS),$(MAKE) --no-print-directory $(PEERS_VENV)/.installed)
	$(PY) -m research.detection_eval $(if $(QUICK),--quick) $(if $(HARNESS),--harness $(HARNESS)) \
		$(if $(DATA),--data $(DATA)) $(if $(LINES),--lines $(LINES)) $(if $(SEED),--seed $(SEED)) $(if $(WRITE),--write docs/detection.md) \
		$(if $(PEERS),--peers $(PEERS_VENV)/bin/python) $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume)

$(PEERS_VENV)/.installed: research/detection_eval/requirements-peers.txt
	$(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps signal-processing-algorithms==2.1.6
	@touch $@

pictures: $(VENV)/.development ## take the pictures of docs/ from a running server: URL=http://127.0.0.1:8000 PROJECT=name
	$(PY) -m research.pictures $(URL) $(PROJECT)

history: setup $(VENV)/.development ## measure a real history and take the pictures of docs/ from it: REDIS=repository VALKEY=, MEMCACHED=, COMMITS=60
	$(PY) -m research.history --pictures $(if $(REDIS),--redis $(REDIS)) $(if $(VALKEY),--valkey $(VALKEY)) \
		$(if $(MEMCACHED),--memcached $(MEMCACHED)) $(if $(COMMITS),--commits $(COMMITS))

# Zig links the driver against the symbols of an old C library, so that the wheel suits any Linux that has Python 3.11. Paths
# of this machine stay out of the driver, as its digest is part of what a series is.
WHEEL_LIBC := 2.28
MACHINE ?= $(shell uname -m)
WHEEL_TARGET := $(MACHINE)-unknown-linux-gnu
WHEEL_DRIVER := $(or $(CARGO_TARGET_DIR),runners/driver/target)/$(WHEEL_TARGET)/release/speedbench
PLAIN_PATHS = 'target.$(WHEEL_TARGET).rustflags=["--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo", \
	"--remap-path-prefix=$(CURDIR)/runners/driver=driver"]'

wheel:           ## the runner with its driver in one file, in dist/; MACHINE=aarch64; CARRIED=program puts that driver into it, unbuilt
	$(if $(CARRIED),,$(MAKE) --no-print-directory $(WHEEL_DRIVER))
	SPEEDTRACK_CARRIED_DRIVER=$(abspath $(or $(CARRIED),$(WHEEL_DRIVER))) $(PYTHON) -m pip wheel --quiet \
		--disable-pip-version-check --no-deps --wheel-dir $(DIST) ./runners
	@ls $(DIST)/speedtrack_runner-*.whl

$(WHEEL_DRIVER): $(WHEEL_VENV)/.installed $(DRIVER_SOURCES)
	cd runners/driver && PATH=$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH cargo zigbuild --release --locked --bin speedbench \
		--target $(WHEEL_TARGET).$(WHEEL_LIBC) --config $(PLAIN_PATHS)
	@touch $@

$(WHEEL_VENV)/.installed: runners/driver/requirements-wheel.txt
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The files of a commit, and the pages as they are built: whoever installs it needs no Node.
REF ?= HEAD
archive: frontend/dist/.built ## the server as an archive for deploy/install, in dist/
	$(eval NAME := speedtrack-$(shell sed -n 's/^__version__ = "\(.*\)".*/\1/p' speedtrack/__init__.py)-$(shell git rev-parse --short $(REF)))
	@mkdir -p $(DIST)
	git archive --prefix $(NAME)/ --output $(DIST)/$(NAME).tar $(REF)
	tar --append --file $(DIST)/$(NAME).tar --owner root:0 --group root:0 --transform 's,^,$(NAME)/,' frontend/dist
	gzip --force --no-name $(DIST)/$(NAME).tar
	@ls $(DIST)/$(NAME).tar.gz

release:         ## all files of a release, in dist/: TAG=v1.1.0, which is checked out
	@DIST=$(DIST) PYTHON=$(PYTHON) deploy/release $(TAG)

try-fresh-debian: $(VENV)/.runtime ## as root: follow docs/installing.md on new Debian machines: WHEEL=file, OLDER=commit, WRITE=1 into that page
	@$(PY) -m research.fresh_debian --wheel $(or $(WHEEL),$(firstword $(wildcard $(DIST)/speedtrack_runner-*.whl))) \
		$(if $(OLDER),--older $(OLDER)) $(if $(WRITE),--write)

newcomer: $(VENV)/.runtime ## time the way from a fresh clone to the first chart of a repository of one's own; WRITE=1 into docs/installing.md
	@nice $(PY) -m research.newcomer $(if $(WRITE),--write)

lock: $(VENV)/.development ## compile the requirement files anew
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes requirements.in -o requirements.txt
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes requirements-dev.in -o requirements-dev.txt
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes requirements-traces.in -o requirements-traces.txt

clean:           ## remove what was built and all state of the embedded servers
	rm -rf $(VENV) $(PEERS_VENV) $(WHEEL_VENV) $(DIST) var frontend/dist frontend/node_modules runners/driver/target
