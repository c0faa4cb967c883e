# Every target sets up .venv by itself; a machine needs Python >= 3.11 and make, nothing else.
# The real peers (JDK 17+, Maven, Go, Node) are used where they are installed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready
PARTS := wire storage sdk proxy compat_tests bench examples

.PHONY: demo test test-fast lint serve bench sim docs clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lanemq needs Python 3.11 or newer; set PYTHON=/path/to/it")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# One run per part: each has a tests/conftest.py, which mypy takes for the same module.
	@for part in $(PARTS); do $(BIN)/mypy $$part || exit 1; done
	$(BIN)/lint-imports

test: lint test-fast $(DOCS_READY)
	@# Most of these wait for something most of the time. The matrix uses all cores by itself.
	$(BIN)/pytest --quiet --numprocesses 2 --dist loadfile -m '(peers or slow) and not matrix'
	$(BIN)/pytest -m matrix

test-fast: $(READY)
	$(BIN)/pytest --quiet --numprocesses auto --dist worksteal -m 'not peers and not slow'

serve: $(READY)
	$(BIN)/lanemq serve

demo: $(READY)
	$(BIN)/lanemq compat demo

bench: $(READY)
	$(BIN)/lanemq bench broker --against apache

# One simulated cluster; SEED and STEPS repeat a run.
sim: $(READY)
	$(BIN)/python -m lanemq.proxy.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS))

docs: $(DOCS_READY)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis build
