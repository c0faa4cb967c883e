"""States that are made again of what is here: a whole log, or a base and the log behind."""

from collections.abc import Callable
from typing import Final, final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreCorrupted
from lanemq.storage.kv import Base, KvMeta
from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import parse_partition
from lanemq.wire.logical import Segment

from ...logical.rules._mapping import TopicMapping
from ._sources import goes_on_from

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class Remaker:
    """The maker of the states of one broker, without any other."""

    _bounds: Callable[[str, int], tuple[int, int]]
    """Returns the oldest and the next offset of a message queue of the store."""
    _states: KvStates

    def has_any(self, first: Segment) -> bool:
        """Return whether anything was written to a log that began with ``first`` here."""
        return self._bounds(first.topic, first.queue_id)[1] > first.offset_delta

    def has_all(self, first: Segment) -> bool:
        """Return whether records are here, from ``first`` on: retention takes the oldest."""
        begin, end = self._bounds(first.topic, first.queue_id)
        return begin <= first.offset_delta < end

    async def of_log(self, name: str, first: Segment) -> None:
        """Make a state of the log that is here from its beginning, ``first``.

        Raises ``OSError``, ``StoreError``.
        """
        LOGGER.warning("partition %s is made again from its log", name)
        if name in self._states.states:
            self._states.kept.drop(name)
        _, partition = parse_partition(name)
        meta = KvMeta(partition=partition, queue_id=first.queue_id, shift=-first.offset_delta)
        state = await self._states.make(name, meta)
        if state.meta.lost:  # and with it the record that says how many partitions there are
            meta.partitions = 0
            self._states.kept.follow(name, meta)
        await self._states.catch_up()

    def base_of(self, name: str, mapping: TopicMapping, last: Segment) -> Base | None:
        """Return the base with which a log is here up to ``last``, its last part here."""
        base = self._states.kept.bases.known.get(name)
        if base is None or not goes_on_from(mapping, last, base.position):
            return None
        begin, end = self._bounds(last.topic, last.queue_id)
        if not begin <= base.position - last.shift <= end:
            return None
        namespace, _ = parse_partition(name)
        known = {
            state.meta.identity
            for other, state in self._states.states.items()
            if parse_partition(other)[0] == namespace and state.meta.identity
        }
        return base if not base.identity or known <= {base.identity} else None

    async def of_base(self, name: str, mapping: TopicMapping, last: Segment) -> bool:
        """Make a state of its base and the log behind it; returns whether that was possible.

        Raises ``OSError``, ``StoreError``.
        """
        base = self.base_of(name, mapping, last)
        if base is None:
            return False
        LOGGER.warning(
            "partition %s is made again from its base, of record %d, and its log",
            name,
            base.position,
        )
        kept = self._states.kept
        meta = KvMeta(queue_id=last.queue_id, shift=last.shift, first=base.position)
        async with kept.copying(name) as copy:
            try:
                for rows in kept.bases.pages(name):
                    copy.put(rows)
                    if self._states.wants_flush:
                        await self._states.flush()
                    await trio.lowlevel.checkpoint()
                await kept.copied(name, copy, meta)
            except (StoreCorrupted, RemoteProtocolError) as error:
                kept.bases.distrust(name, error)
                return False
        await self._states.catch_up()
        return True
