"""Names that tests of stores share: types of their fixtures, paths, the recorded stores."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from lanemq.storage import NewMessage, Store

ROOT: Final = Path("/store")
"""The store of a simulated disk."""
HOST: Final = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS: Final = 1_700_000_000_000

STORES: Final = Path(__file__).parents[4] / "compat_tests" / "vectors" / "stores"
"""Stores that real brokers wrote."""
NAMES: Final = sorted(path.name.removesuffix(".tar.gz") for path in STORES.glob("*.tar.gz"))

MakeMessage = Callable[..., NewMessage]
OpenSmall = Callable[..., AbstractAsyncContextManager[Store]]
Recorded = Callable[[str], Path]


def expected_of(name: str) -> dict[str, Any]:
    """Return what the broker that wrote a recorded store said of it."""
    value: dict[str, Any] = json.loads((STORES / f"{name}.expected.json").read_text())
    return value
