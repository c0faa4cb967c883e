"""Fixtures of the benches' tests with real peers."""

import pytest

from lanemq.testkit.peers import require_tools


@pytest.fixture(scope="session")
def java() -> None:
    """Skip without a JDK and Maven; fail if LANEMQ_REQUIRE_PEERS insists on them."""
    require_tools("java")
