"""The fixtures of the Spark part: one session on two cores, and recorded stores."""

import json
import os
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lanemq.compat import Cluster, apache_cluster, running
from lanemq.testing import open_test_server
from lanemq.testkit.peers import require_tools
from lanemq.testkit.spark import lake, require_java, require_packages
from lanemq.testkit.storage.stores import STORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of Spark for all of these tests."""
    require_packages()
    require_java()
    from lanemq.spark.cli._home import unpack_home

    home = tmp_path_factory.mktemp("spark")
    # The workers of a stream have ten seconds to come up; without this a busy machine takes longer.
    unpack_home(home)
    return home


@pytest.fixture(scope="session")
def spark_apart(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that starts a Spark of its own, and may be killed.

    It runs for seconds: what a JVM compiles thoroughly, it compiles in vain. What it leaves of
    its libraries and artifacts when it is killed goes with the other folders of the tests.
    """
    left = tmp_path_factory.mktemp("spark-apart")
    own = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_DIRS": str(left),
        "JAVA_TOOL_OPTIONS": f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={left}",
    }
    return {**os.environ, **own}


@pytest.fixture(scope="session")
def spark(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session that knows the sources."""
    from pyspark.sql import SparkSession

    from lanemq.spark import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(spark_home)
    os.environ.update(lake(tmp_path_factory.mktemp("lake")))  # the JVM hands it to its Pythons
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lanemq tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture
def pushdown(spark: "SparkSession") -> Iterator[None]:
    """Let Spark push filters down to the DataFrames that ask for them."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "true")
    yield
    spark.conf.set(name, before)


@pytest.fixture(autouse=True)
def sources_known(request: pytest.FixtureRequest) -> None:
    """Make the session the active one of this thread, whatever ran in this process before."""
    if "spark" in request.fixturenames:
        from lanemq.spark import register

        register(request.getfixturevalue("spark"))


@pytest.fixture(scope="session")
def recorded_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores that real brokers wrote, by name; not to be changed."""
    directory = tmp_path_factory.mktemp("stores")
    for path in sorted(STORES.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            archive.extractall(directory, filter="data")
    return directory


@pytest.fixture(scope="session")
def expected_of() -> Callable[[str], dict[str, Any]]:
    """The report of a recorded store's broker."""

    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((STORES / f"{name}.expected.json").read_text())
        return found

    return read


@pytest.fixture(scope="session", params=["lanemq", "apache-5.3.3"])
def name_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a cluster's name server, of lanemq and of Apache in turn."""
    if request.param == "lanemq":
        with open_test_server() as server:
            yield server.name_servers
        return
    require_tools("java")
    with running_apache(tmp_path_factory.mktemp("apache")) as address:
        yield address


@contextmanager
def running_apache(folder: Path) -> Iterator[str]:
    """Run Apache's name server and broker, in a trio of their own; gives the address."""
    with running_beside(lambda: apache_cluster("5.3.3", folder)) as cluster:
        yield cluster.name_server


@contextmanager
def running_beside(make: Callable[[], Cluster]) -> Iterator[Cluster]:
    """Run servers in a trio of their own, in another thread: this one belongs to Spark."""
    ready, over, found = threading.Event(), threading.Event(), list[Cluster]()

    async def main() -> None:
        try:
            async with running(make(), graceful=False) as cluster:
                found.append(cluster)
                ready.set()
                await trio.to_thread.run_sync(over.wait)
        finally:
            ready.set()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        ready.wait()
        assert found, "the servers did not start"
        yield found[0]
    finally:
        over.set()
        thread.join()


@pytest.fixture(name="running_beside")
def running_beside_fixture() -> Callable[[Callable[[], Cluster]], AbstractContextManager[Cluster]]:
    """Servers for tests that write by Spark, which finds its sources from its own thread only."""
    return running_beside
