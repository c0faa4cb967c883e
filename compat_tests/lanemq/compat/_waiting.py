"""Waiting for what servers, processes of their own, do by and by and tell nobody."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

PATIENT_S: Final = 60.0
"""How long one question of the tests' own to a server may take. A busy machine is no failure."""


async def until(holds: Callable[[], Awaitable[bool]], *, within_s: float = 90.0) -> None:
    """Ask again and again until ``holds``. Raises ``trio.TooSlowError`` after ``within_s``."""
    with trio.fail_after(within_s):
        while not await holds():  # noqa: ASYNC110 - nobody could set an event
            await trio.sleep(0.05)
