"""Locks of queues that outlive their time, for tests in which nobody is to wait for that."""

import math

import pytest

from lanemq.proxy.sessions.state import _locks


def keep_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no lock of this process's brokers expire."""
    monkeypatch.setattr(_locks, "LOCK_LIFE_S", math.inf)
