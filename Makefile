# Everything a user types. `make help` lists it. Works from a fresh clone with only Python 3.11 to 3.13.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV   ?= .venv
PORT   ?= 8000
JOBS   ?= 2
# The first interpreter that fits. Say PYTHON=python3.12 to choose.
PYTHON ?= $(shell for p in python3 python3.12 python3.13 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3,11) <= sys.version_info[:2] <= (3,13))' 2>/dev/null \
	&& { echo $$p; break; }; done)
# A complete freeze without torch; CI machines have a CPU build of torch at hand (constraints-ci.txt).
CONSTRAINTS ?= $(if $(CI),constraints-ci.txt,constraints.txt)
PY  := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo "Options: PORT=8000  JOBS=2  PYTHON=python3.12  VENV=.venv  CONSTRAINTS=$(CONSTRAINTS)"

$(PY):
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found. Install one, or say: make PYTHON=/path/to/python3.12 …"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 2; }

# Reading and building: no torch.
$(VENV)/.course: pyproject.toml constraints.txt | $(PY)
	@test -e $(VENV)/.dev || echo "Installing what the site needs into $(VENV) (about a minute, once) …"
	@$(PIP) -c $(CONSTRAINTS) -e '.[course]'
	@touch $@

# Running the model and the tests.
$(VENV)/.dev: pyproject.toml constraints.txt constraints-ci.txt | $(PY)
	@echo "Installing everything, torch included, into $(VENV) (some minutes, once) …"
	@$(PIP) -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@ $(VENV)/.course

setup: $(VENV)/.dev ## install everything (torch, test tools) into .venv

build: $(VENV)/.course ## build the site into _build/html
	@$(PY) -m infer_course.site build

site: build ## build the site and serve it on localhost
	@$(PY) -m infer_course.site serve --port $(PORT)

pdf: build ## print the book and the questions as PDF into _build/html/pdf (needs a Chromium)
	@$(PY) -m infer_course.pdf

check: $(VENV)/.course ## check the course: graph, links, numbers, limits
	@$(VENV)/bin/infer-course check

lint: $(VENV)/.dev ## style and types
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	@$(VENV)/bin/pyright --pythonpath $(PY)

browser: $(VENV)/.dev ## find a Chromium for the page tests, or install one
	@$(PY) -m tests.site.browser

# Kernels run in Triton's interpreter, which is chosen at import: a process of their own. One thread each, two at a time.
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist loadfile

test: lint check browser build ## the whole suite
	@$(PYTEST) tests --ignore=tests/kernels --ignore=tests/gpu
	@$(PYTEST) tests/kernels
	@$(PY) -m pytest tests/gpu
	@OMP_NUM_THREADS=1 $(PY) -m pytest --nbval --nbval-current-env --nbval-sanitize-with labs/nbval_sanitize.cfg labs

test-full: test ## the suite, with the long versions
	@$(PY) -m pytest -m full tests --ignore=tests/kernels --ignore=tests/gpu

fuzz: $(VENV)/.dev ## 20,000 random workloads against the engine core
	@$(PY) -m tests.core.fuzz --scenarios 20000

labs: $(VENV)/.dev ## run every lab on this machine's CPU
	@$(PY) -m infer_course.run_labs

labs-gpu: $(VENV)/.dev ## run every lab on this machine's GPU; stores outputs and measurements
	@$(PY) -m infer_course.run_labs --device cuda --store

clean: ## remove what was built (not the environment)
	@rm -rf _build book/_static/gen extra/vendor

.PHONY: help setup build site pdf check lint browser test test-full fuzz labs labs-gpu clean
