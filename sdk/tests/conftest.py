"""A cluster in memory for every test that wants one."""

import pytest
import trio

from lanemq.sdk._testing import FakeCluster


@pytest.fixture
def cluster(nursery: trio.Nursery) -> FakeCluster:
    """One name server, one broker, and a network that can be broken."""
    cluster = FakeCluster(nursery)
    cluster.add_name_server()
    cluster.add_broker()
    return cluster
