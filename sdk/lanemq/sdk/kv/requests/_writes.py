"""The sequence numbers of writes; each partition remembers those of every writer."""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import final

import trio

from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import UNDER_WAY_MAX, OpType, WriteTurn, WriteWindow

from ..._errors import LanemqError
from ._attempts import Attempts


async def take(window: WriteWindow) -> WriteTurn:
    """Return a write that has its number, until it leaves the window."""
    came = trio.Event()
    turn = WriteTurn(came.set)
    window.enter(turn)
    try:
        if not turn.number:
            await came.wait()
    except BaseException:  # given up; the number may have come meanwhile
        window.leave(turn)
        raise
    return turn


@final
class WriteWindows:
    """The writes of one client to a namespace."""

    def __init__(self, namespace: str, client_id: str) -> None:
        self._namespace = namespace
        self._client_id = client_id
        self._windows = defaultdict[int, WriteWindow](WriteWindow)

    @asynccontextmanager
    async def numbered(
        self, op_type: str, partition: int, attempts: Attempts
    ) -> AsyncIterator[KvWrite]:
        """Have the header of a write for the length of the block; its turn may have to come first.

        Raises ``LanemqError`` where it has not come in the time of the call: nothing was sent.
        """
        if op_type == OpType.ALIVE:
            # To do it twice is to do it once: so it needs no number, and no turn, for which a
            # lease cannot wait.
            yield KvWrite(op_type=op_type, namespace=self._namespace)
            return
        window = self._windows[partition]
        since_s = trio.current_time()
        turn = await attempts.turn(partial(take, window))
        if turn is None:
            waited_s = trio.current_time() - since_s
            raise LanemqError(
                f"namespace {self._namespace!r}: {UNDER_WAY_MAX} writes of this store to "
                f"partition {partition} are under way, and the turn of this one has not come in "
                f"{waited_s:.3g} s: it was not sent"
            )
        try:
            yield KvWrite(
                op_type=op_type,
                namespace=self._namespace,
                client=self._client_id,
                sequence=turn.number,
                waits=window.waits,
            )
        finally:
            window.leave(turn)
