"""Files whose tests take long start first, loaded by pytest.

Where whole files go to workers, a long one that starts last keeps one worker busy while the others
are idle. xdist begins with the files of most tests by itself, which are not the longest ones:
``--no-loadscope-reorder`` leaves the order to this plugin. The order within a file stays.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pytest

T = TypeVar("T")

USUAL_S: Final = 2.0
"""Median time of a test that is slow or needs peers."""
LONG_S: Final = {
    "compat_tests/tests/test_access.py": 120,
    "compat_tests/tests/test_histories.py": 90,
    "compat_tests/tests/test_logical_queues.py": 240,
    "compat_tests/tests/test_logical_queues_failures.py": 160,
    "compat_tests/tests/test_logical_queues_views.py": 150,
    "compat_tests/tests/test_staged.py": 120,
    "compat_tests/tests/test_timer_stores.py": 150,
    "compat_tests/tests/test_transaction_stores.py": 80,
    "compat_tests/tests/test_upgrade_crossing.py": 70,
    "compat_tests/tests/test_upgrade_live.py": 50,
    "bench/tests/test_broker_bench.py": 65,
    "bench/tests/test_logical_bench.py": 60,
    "bench/tests/test_queues_bench.py": 55,
    "bench/tests/test_sdk_bench.py": 80,
    "bench/tests/test_spark_bench.py": 45,
    "proxy/tests/test_crash_loop.py": 55,
    "proxy/tests/test_simulation.py": 160,
    "proxy/tests/test_timer_kills.py": 40,
    "proxy/tests/test_transaction_kills.py": 30,
    "sdk/tests/test_simulation.py": 40,
    "spark/tests/test_jobs.py": 90,
    "storage/tests/test_convert_kills.py": 100,
    "storage/tests/test_crash.py": 45,
    "storage/tests/test_histories_random.py": 60,
    "storage/tests/test_stages_kills.py": 60,
    "storage/tests/test_stages_random.py": 40,
}
"""Seconds that the tests of a file take together, where they are far from usual."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files that take longest first, where xdist does not choose itself."""
    if not config.getoption("loadscopereorder", default=True):
        items[:] = longest_first(items, lambda item: item.nodeid)


def longest_first(tests: Sequence[T], id_of: Callable[[T], str]) -> list[T]:
    """Return the tests of the file that takes longest, then those of the next one, and so on."""

    def file_of(test: T) -> str:
        return id_of(test).partition("::")[0]

    counts = Counter(file_of(test) for test in tests)
    seconds = {file: max(LONG_S.get(file, 0), USUAL_S * count) for file, count in counts.items()}
    return sorted(tests, key=lambda test: (-seconds[file_of(test)], file_of(test)))
