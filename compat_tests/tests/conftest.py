"""The fixtures of tests with real peers."""

import pytest

from lanemq.testkit.peers import require_tools


@pytest.fixture(scope="session")
def java() -> None:
    """Skip without a JDK and Maven; fail if LANEMQ_REQUIRE_PEERS insists on them."""
    require_tools("java")


@pytest.fixture(scope="session")
def go() -> None:
    """As ``java``, for the Go client."""
    require_tools("go")
