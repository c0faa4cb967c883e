"""Leases that are kept alive more often than their time needs, for tests in real time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lanemq.sdk.kv import _lease, _lock


@contextmanager
def renewals(number: int) -> Iterator[None]:
    """Keep leases alive so often within their time: a loss shows soon, though the time is longer
    than a busy machine takes for anything."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_lease, _lock):
            patch.setattr(module, "RENEWALS", number)
        yield
