"""The encoder of strings in fastjson's texts, for tests that count what it encodes."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from lanemq.wire.fastjson import _writer

Wrapped = TypeVar("Wrapped")


def wrap_encoder(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Any], Wrapped]) -> Wrapped:
    """Put what ``wrap`` makes of the encoder in its place, and return it."""
    wrapped = wrap(_writer._ENCODER)
    monkeypatch.setattr(_writer, "_ENCODER", wrapped)
    return wrapped
