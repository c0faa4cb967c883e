"""What tests with real peers share."""

import pytest

from lanemq.compat import missing_tools, peers_required


def _require(kind: str) -> None:
    if missing := missing_tools(kind):
        if peers_required():
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.fixture(scope="session")
def java() -> None:
    """Skip without a JDK and Maven; fail if LANEMQ_REQUIRE_PEERS insists on them."""
    _require("java")


@pytest.fixture(scope="session")
def go() -> None:
    """As ``java``, for the Go client."""
    _require("go")
