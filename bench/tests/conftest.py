"""What the benches' tests with real peers share."""

import pytest

from lanemq.compat import missing_tools, peers_required


@pytest.fixture(scope="session")
def java() -> None:
    """Skip without a JDK and Maven; fail if LANEMQ_REQUIRE_PEERS insists on them."""
    if missing := missing_tools("java"):
        if peers_required():
            pytest.fail(missing)
        pytest.skip(missing)
