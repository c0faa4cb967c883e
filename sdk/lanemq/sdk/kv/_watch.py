"""A watch: the changes under a prefix, one after another."""

from collections.abc import Sequence
from functools import partial
from typing import Final, final

import trio

from lanemq.wire.kv import Change

from .._errors import ClientClosed
from .._tasks import gather
from .._values import check_seconds
from ._numbers import check_bytes, check_key
from .requests._calls import KvCalls, OtherPartitions
from .requests._errors import KvRejected, counted
from .requests._feed import Feed, Wanted

PROGRESS_S_MAX: Final = 60.0
"""Seconds that a broker waits at most."""


def wanted_by(
    prefix: bytes, key: bytes | None, *, previous: bool, progress_s: float | None
) -> Wanted:
    """Check what a caller of ``watch`` gave. Raises ``KvRejected``."""
    check_bytes("a prefix", prefix)
    if key is not None:
        check_key(key)
        if prefix:
            raise KvRejected("a watch has a prefix, or key=, and not both")
    wanted = Wanted(bytes(prefix), key, previous)
    if progress_s is None:
        return wanted
    check_seconds("progress_s", progress_s, most_s=PROGRESS_S_MAX, error=KvRejected)
    return wanted._replace(wait_s=max(0.001, progress_s), progress=True)


@final
class Watch:
    """The changes under a prefix, from a position on; none is left out. Made by ``watch``.

    It waits for changes with a request at a time to each partition, goes on after a broker was
    away, and costs nothing while nobody reads it. ``async for`` gives one change after another,
    without an end; those of a partition are in its order.
    """

    def __init__(
        self,
        calls: KvCalls,
        nursery: trio.Nursery,
        wanted: Wanted,
        position: int | Sequence[int] | None,
    ) -> None:
        self._calls = calls
        self._nursery = nursery
        self._wanted = wanted
        given = (position,) if isinstance(position, int) else position
        self._begin = None if given is None else tuple(given)
        self._feeds: list[Feed] = []
        self._turn = 0
        self._errors: list[Exception] = []
        self._arrived = trio.Event()

    @property
    def position(self) -> int | tuple[int, ...] | None:
        """The position to go on from, for another ``watch``; of a watch from now, None until its
        first answer.

        Of a change of a batch it is that of the whole batch, whose other changes come again. Of
        several partitions it has the position of each.
        """
        feeds = self._feeds  # another thread may read this while the core's replaces them
        positions = tuple(feed.position for feed in feeds) or self._begin
        return positions[0] if positions and len(positions) == 1 else positions

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Change:
        """Return the next change, as soon as there is one.

        Raises ``KvCompacted`` where it is no longer known, ``KvRejected`` where it was not
        given a position for each partition, and as ``KeyValueStore.get``.
        """
        while True:
            if not self._feeds:
                self._feeds = await self._calls.of_all(self._begun)
            for feed in self._feeds:
                if feed.is_empty and not feed.is_asking and not self._errors:
                    self._ask(feed)
            change = self._taken()
            if change is not None:
                return change
            if self._errors:
                self._raise(self._errors.pop(0))
                continue
            await self._arrived.wait()

    def _give_back(self, change: Change) -> None:
        """Put a change that its reader did not get back to the front."""
        self._feeds[change.partition].give_back(change)

    def _taken(self) -> Change | None:
        """Take a change, of one partition after the other: none waits for a busy one."""
        count = len(self._feeds)
        for number in range(self._turn, self._turn + count):
            feed = self._feeds[number % count]
            if not feed.is_empty:
                self._turn = (number + 1) % count
                return feed.take()
        return None

    def _ask(self, feed: Feed) -> None:
        if self._nursery.cancel_scope.cancel_called:
            raise ClientClosed("store")
        feed.is_asking = True
        # In a task of its own: a request that waits at the broker keeps its place there until it
        # is answered, so it goes on when another partition has a change, or the reader goes.
        self._nursery.start_soon(self._fill, feed)

    async def _fill(self, feed: Feed) -> None:
        try:
            await feed.fill()
        except Exception as error:
            if any(one is feed for one in self._feeds):
                self._errors.append(error)
        finally:
            feed.is_asking = False
            arrived, self._arrived = self._arrived, trio.Event()
            arrived.set()

    def _raise(self, error: Exception) -> None:
        if not isinstance(error, OtherPartitions):
            raise error
        if any(feed.was_answered for feed in self._feeds):
            raise KvRejected(
                f"the namespace has been made again, and had {counted(len(self._feeds))}: "
                "watch it from the beginning"
            )
        self._feeds, self._errors = [], []  # they were asked as many as name servers know of

    async def _begun(self, partitions: int) -> list[Feed]:
        positions = self._begin
        identities: list[str | None] = [None] * partitions
        if positions is None:
            positions, identities = await self._now(partitions)
        elif len(positions) != partitions:
            why = (
                f"the namespace has {counted(partitions)}: a watch of it goes on from as many "
                f"positions, as page.positions has them, and not from {len(positions)}"
            )
            await self._calls.refuse(partitions, KvRejected(why))
        return [
            Feed(
                self._calls,
                self._wanted,
                partition,
                partitions,
                position,
                identities[partition],
            )
            for partition, position in enumerate(positions)
        ]

    async def _now(self, partitions: int) -> tuple[tuple[int, ...], list[str | None]]:
        """Return the position of each partition, and the identity that goes with it."""
        calls, attempts = self._calls, self._calls.attempts()
        asked = [
            partial(calls.status_at, partition, partitions, attempts=attempts.fork())
            for partition in range(partitions)
        ]
        found = await gather(asked)
        return tuple(one.position for one in found), [one.identity or None for one in found]
