"""The numbers of a proxy's writes to a partition, as its tasks wait for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from lanemq.wire.kv import WriteTurn, WriteWindow


@asynccontextmanager
async def taken(window: WriteWindow, *, is_besides: bool = False) -> AsyncIterator[int]:
    """Have the number of a write, whose result is waited for within the block; see ``enter``."""
    came = trio.Event()
    turn = WriteTurn(came.set)
    window.enter(turn, is_besides=is_besides)
    try:
        if not turn.number:
            await came.wait()
        yield turn.number
    finally:
        window.leave(turn)
