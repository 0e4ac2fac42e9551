# `make run` and `make test` are all a newcomer needs; each makes .venv by itself and is fast the second time.
.PHONY: run test test-rest lint docs bench fuzz clean
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

run: $(STAMP)
	$(BIN)/python -m experiments paper --out out

# a file stays with one worker: its clusters are started, and what it compares with is computed, once; many processes
# load the same modules, so that they are kept as bytecode whatever the environment says
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder
test test-rest: export PYTHONDONTWRITEBYTECODE :=
test: $(STAMP)
	$(BIN)/python -m condgrad.compile_kernels
	$(PYTEST) -m 'not rest'

# what needs torch, Triton or Chromium, which are installed beside, or tools; what is slow by nature; combinations of
# parameters that `make test` tries one by one
test-rest: .venv/.tools
	$(PYTEST) -m rest

lint: .venv/.tools
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

# the site, in docs/_build/html; a warning is an error
docs: .venv/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

.venv/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

.venv/.tools: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

bench: $(STAMP)
	$(BIN)/python -m experiments bench overhead
	$(BIN)/python -m experiments bench transport -- --cap 20
	$(BIN)/python -m experiments bench group_lasso -- --cap 20
	$(BIN)/python -m experiments bench auto

# random problems for SECONDS, or so many PROBLEMS; reproducers of what is wrong are in out/fuzz
SECONDS ?= 60
SEED ?= 0
JOBS ?= 2
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --seed $(SEED) --jobs $(JOBS) --out out/fuzz $(if $(PROBLEMS),--problems $(PROBLEMS),--seconds $(SECONDS))

clean:
	rm -rf .venv out

# pip would compile all modules, most of which nobody imports
$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test]'
	touch $@
