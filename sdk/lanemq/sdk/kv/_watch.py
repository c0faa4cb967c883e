"""A watch: the changes under a prefix, one after another."""

from collections import deque
from typing import Final, final

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvStatus, KvWatch
from lanemq.wire.kv import Change, Changes, NamespaceStatus, decode_answer, encode_key

from ._calls import KvCalls

WAIT_S: Final = 20.0


@final
class Watch:
    """The changes under a prefix, from a position on; none is left out. Made by ``watch``.

    It waits for changes with a request at a time, goes on after a broker was away, and costs
    nothing while nobody reads it. ``async for`` gives one change after another, without an end.
    """

    def __init__(self, calls: KvCalls, prefix: bytes, position: int | None) -> None:
        self._calls = calls
        self._prefix = prefix
        self._position = position
        self._index = 0
        self._read: deque[Change] = deque()

    @property
    def position(self) -> int | None:
        """The position to go on from, for another ``watch``; None before the first change.

        Of a change of a batch it is that of the whole batch, whose other changes come again.
        """
        return self._read[0].position if self._read else self._position

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Change:
        """Return the next change, as soon as there is one.

        Raises ``KvCompacted`` where it is not known any more, and as ``KeyValueStore.get``.
        """
        while not self._read:
            await self._fill()
        return self._read.popleft()

    def _give_back(self, change: Change) -> None:
        """Have a change come again, which nobody has seen."""
        self._read.appendleft(change)

    async def _fill(self) -> None:
        calls = self._calls
        if self._position is None:
            body = await calls.ask(RequestCode.KV_STATUS, KvStatus(calls.namespace))
            (status,) = decode_answer(body, list[NamespaceStatus])
            self._position = status.position
        header = KvWatch(
            position=self._position,
            index=self._index,
            prefix=encode_key(self._prefix),
            namespace=calls.namespace,
            wait_millis=int(WAIT_S * 1000),
        )
        body = await calls.ask(RequestCode.KV_WATCH, header, wait_s=WAIT_S)
        found = decode_answer(body, Changes)
        self._position, self._index = found.next_position, found.next_index
        self._read.extend(found.changes)
