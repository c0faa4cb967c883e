"""Files whose tests take long start first, and the longest are shared out, loaded by pytest.

Where whole files go to workers, a long one that starts last keeps one worker busy while the others
are idle. xdist begins with the files of most tests by itself, which are not the longest ones:
``--no-loadscope-reorder`` leaves the order to this plugin. The order within a file stays. The
tests of a file that takes longer than all others may go to several workers: one worker alone
would need as long for it as the whole run may take.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

T = TypeVar("T")

USUAL_S: Final = 0.5
"""Median time of a test that is slow or needs peers."""
LONG_S: Final = {
    "bench/tests/test_broker_bench.py": 70,
    "bench/tests/test_kv_bench.py": 120,
    "bench/tests/test_logical_bench.py": 100,
    "bench/tests/test_queues_bench.py": 90,
    "bench/tests/test_sdk_bench.py": 60,
    "bench/tests/test_spark_bench.py": 80,
    "compat_tests/tests/test_access.py": 170,
    "compat_tests/tests/test_access_users.py": 60,
    "compat_tests/tests/test_admin_client.py": 30,
    "compat_tests/tests/test_demo.py": 140,
    "compat_tests/tests/test_extended_units_at_apache.py": 110,
    "compat_tests/tests/test_histories.py": 50,
    "compat_tests/tests/test_install.py": 40,
    "compat_tests/tests/test_interop.py": 30,
    "compat_tests/tests/test_logical_listeners.py": 70,
    "compat_tests/tests/test_logical_name_servers.py": 50,
    "compat_tests/tests/test_logical_queues.py": 350,
    "compat_tests/tests/test_logical_queues_failures.py": 430,
    "compat_tests/tests/test_logical_queues_views.py": 270,
    "compat_tests/tests/test_matrix.py": 670,
    "compat_tests/tests/test_mqadmin.py": 60,
    "compat_tests/tests/test_operators_ask_consumers.py": 40,
    "compat_tests/tests/test_preview.py": 30,
    "compat_tests/tests/test_proxy.py": 1070,
    "compat_tests/tests/test_pythons.py": 90,
    "compat_tests/tests/test_requests.py": 110,
    "compat_tests/tests/test_sdk_operations.py": 40,
    "compat_tests/tests/test_sdk_producer.py": 40,
    "compat_tests/tests/test_site.py": 90,
    "compat_tests/tests/test_site_in_a_browser.py": 180,
    "compat_tests/tests/test_staged.py": 210,
    "compat_tests/tests/test_store_crossing.py": 80,
    "compat_tests/tests/test_timer_stores.py": 210,
    "compat_tests/tests/test_timers.py": 50,
    "compat_tests/tests/test_tls.py": 330,
    "compat_tests/tests/test_transaction_stores.py": 110,
    "compat_tests/tests/test_upgrade_controls.py": 70,
    "compat_tests/tests/test_upgrade_crossing.py": 160,
    "compat_tests/tests/test_upgrade_live.py": 50,
    "compat_tests/tests/test_upgrade_tools.py": 40,
    "proxy/tests/test_crash_loop.py": 70,
    "proxy/tests/test_kv_bases.py": 40,
    "proxy/tests/test_kv_connectors.py": 40,
    "proxy/tests/test_kv_linearizable.py": 50,
    "proxy/tests/test_kv_partitions.py": 30,
    "proxy/tests/test_kv_sdk.py": 40,
    "proxy/tests/test_longest_turns.py": 130,
    "proxy/tests/test_simulation.py": 120,
    "proxy/tests/test_timer_kills.py": 40,
    "sdk/tests/test_documents.py": 70,
    "spark/tests/test_archive_tables.py": 170,
    "spark/tests/test_archives.py": 160,
    "spark/tests/test_cluster_losses.py": 250,
    "spark/tests/test_commands.py": 90,
    "spark/tests/test_jobs.py": 80,
    "spark/tests/test_logical_and_kv.py": 30,
    "spark/tests/test_one_frame_twice.py": 80,
    "spark/tests/test_replay.py": 50,
    "spark/tests/test_standalone_cluster.py": 370,
    "spark/tests/test_store_in_objects.py": 30,
    "spark/tests/test_store_jobs.py": 100,
    "spark/tests/test_store_parts.py": 50,
    "spark/tests/test_store_source.py": 70,
    "spark/tests/test_topics.py": 200,
    "storage/tests/test_convert_kills.py": 220,
    "storage/tests/test_damaged_offsets.py": 40,
    "storage/tests/test_metadata_kills.py": 110,
    "storage/tests/test_stages_kills.py": 90,
}
"""Seconds that the tests of a file take together, where they are far from usual."""
SHARED_OUT: Final = frozenset(
    f"compat_tests/tests/test_{name}.py"
    for name in (
        "logical_queues",
        "logical_queues_failures",
        "logical_queues_views",
        "proxy",
        "requests",
        "staged",
        "store_crossing",
        "tls",
        "upgrade_crossing",
    )
)
"""Files whose tests have nothing in common that would be made again for each worker."""


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
    """Shares out files, and tests of those in ``SHARED_OUT`` one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(test: str) -> str:
    """Return what goes to one worker as a whole: the test's file, or the test alone."""
    file = test.partition("::")[0]
    return test if file in SHARED_OUT else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Return how files go to workers, where whole files do."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


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
