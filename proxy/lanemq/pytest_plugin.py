"""The pytest plugin of lanemq: the fixture ``lanemq_server``.

A module of its own, so that test runs without the fixture import nothing else of lanemq.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lanemq.testing import TestServer


@pytest.fixture
def lanemq_server() -> "Iterator[TestServer]":
    """Run a name server and a broker in memory for one test: a ``lanemq.testing.TestServer``."""
    from lanemq.testing import open_test_server

    with open_test_server() as server:
        yield server
