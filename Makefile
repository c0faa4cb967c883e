# Every target sets up .venv by itself; a machine needs Python >= 3.11 and make, nothing else.
# The real peers (JDK 17+, Maven, Go, Node) are used where they are installed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready
SPARK_READY := .venv/.spark-ready
# Where there are 4 GiB of it, the inner loop's temporary files are in memory: RocksDB syncs a dozen
# files each time it is opened. make test has them on the disk.
IN_MEMORY = $$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4194304 {print "env TMPDIR=/dev/shm"}')
TEST_MOST = $(BIN)/pytest --quiet --numprocesses auto --dist worksteal -m 'not peers and not slow'
# Tests with real servers and clients wait for two thirds of their time, the other slow ones for a
# third: so many run at once on two cores.
TEST_BY_FILES = $(BIN)/pytest --quiet --dist loadfile --no-loadscope-reorder
TEST_REAL = $(TEST_BY_FILES) --numprocesses 5 compat_tests
TEST_SLOW = $(TEST_BY_FILES) --numprocesses 3 wire storage sdk proxy spark bench
PARTS := wire storage sdk proxy spark compat_tests bench testkit tools examples

# Byte code is kept in .venv: collecting the tests takes a third of the time then.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-fast test-pythons lint serve bench bench-kv sim fuzz kv-histories docs clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lanemq needs Python 3.11 or newer; set PYTHON=/path/to/it")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

# The Spark part needs some 500 MB of packages, which the inner loop goes without.
$(SPARK_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[spark,delta,iceberg]'
	@touch $@

lint: $(SPARK_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# One run per part: each has a tests/conftest.py, which mypy takes for the same module.
	@for part in $(PARTS); do $(BIN)/mypy $$part || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/lint-imports --config spark/importlinter.toml
	@# What a merge left undone: pages have no compiler.
	@! grep -rnE '^(<<<<<<<|>>>>>>>) ' --include='*.py' --include='*.md' --include='*.toml' --include='*.yml' $(PARTS) docs *.md *.toml *.yml
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/check_silencers.py
	$(BIN)/python tools/check_docstrings.py
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_tests.py
	$(BIN)/python sdk/tools/generate_faces.py --check
	$(BIN)/python tools/write_rights.py --check
	$(BIN)/python compat_tests/tools/write_compatibility.py --check

# Within 40 minutes on two cores: each promise with its first cases, and a quarter of the examples.
test: lint $(DOCS_READY)
	LANEMQ_TESTS=some $(TEST_MOST)
	LANEMQ_TESTS=some $(TEST_REAL) -m '(peers or slow) and not thorough'
	LANEMQ_TESTS=some $(TEST_SLOW) -m '(peers or slow) and not thorough'

# Every case of every promise, and all examples. Takes two hours and more.
test-all: lint $(DOCS_READY)
	$(TEST_MOST)
	$(TEST_REAL) -m 'peers or slow'
	$(TEST_SLOW) -m 'peers or slow'

# A tenth of the examples of property tests. Every test of the Spark part
# is slow, and to find that out takes two seconds.
test-fast: $(READY)
	LANEMQ_TESTS=quick $(IN_MEMORY) $(BIN)/pytest --quiet --override-ini tmp_path_retention_policy=failed --numprocesses auto --dist worksteal -m 'not peers and not slow' --ignore-glob 'spark/*'

# The core of the tests with newer Pythons, each in an environment of its own below build/pythons.
test-pythons: $(READY)
	$(BIN)/python tools/test_pythons.py

serve: $(READY)
	$(BIN)/lanemq serve

demo: $(READY)
	$(BIN)/lanemq compat demo

bench: $(READY)
	$(BIN)/lanemq bench broker --against apache

# Keys beside etcd (where there is one), and ten million entries. Takes a quarter of an hour.
bench-kv: $(READY)
	$(BIN)/lanemq bench kv --against etcd --entries $(or $(ENTRIES),10000000)

# One simulated cluster; SEED and STEPS repeat a run, ONLY=go_past lets nothing else happen in it.
# PROXY=1 puts two proxies before it; RUNS=100 JOBS=2 runs so many seeds, some at once.
sim: $(READY)
	$(BIN)/python -m lanemq.testkit.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) $(if $(ONLY),--only $(ONLY)) $(if $(TRANSACTIONS),--transactions) $(if $(KEYS),--keys) $(if $(PROXY),--proxy) $(if $(RUNS),--runs $(RUNS)) $(if $(JOBS),--jobs $(JOBS))

# Clients of keys while brokers are killed, damaged, and their clocks set. SEED draws what happens.
kv-histories: $(READY)
	$(BIN)/python -m lanemq.testkit.kv_histories --kills $(or $(KILLS),100) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

# Requests that are almost right, at real servers. SEED repeats what a run sent.
fuzz: $(READY)
	$(BIN)/python -m lanemq.testkit.fuzz --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

# The pictures in docs/pictures are drawn beforehand, by tools/draw_pictures.py.
docs: $(DOCS_READY)
	$(BIN)/python tools/draw_pictures.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis build
