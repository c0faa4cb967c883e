"""Partitions that come to a broker and leave it, as the open ends of their logs do.

A broker that a log continues at asks the one before for the state, row by row, once that has
applied all up to the end; until it has it, and has it on the disk, it takes no reads and writes.
The broker before keeps what it had until the new one is open.
"""

import math
from collections.abc import Callable
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreError
from lanemq.storage.kv import NO_QUEUE, KvMeta, KvState
from lanemq.wire import KV_PREFIX, Refused, RemoteProtocolError
from lanemq.wire.kv import kv_namespace, kv_topic, parse_partition, partition_name
from lanemq.wire.logical import Segment

from ...logical.rules._mapping import TopicMapping
from ..logical.state._state import LogicalState
from ._bases import BaseKeeper
from ._fetching import StateFetcher
from ._leftovers import Leftovers
from ._partitions import Partitions
from ._queues import PartitionQueues
from ._remaking import Remaker
from ._sources import beginning, sealed_at, state_sources

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
LOOK_S: Final = 0.1
"""Seconds until the next try to take a partition over."""


@final
@define(eq=False, kw_only=True, repr=False)
class Takeovers:
    """The comings and goings at one broker; ``run`` is its task."""

    _bases: BaseKeeper
    _broker_name: str
    _fetcher: StateFetcher
    _leftovers: Leftovers
    _logical: LogicalState
    _partitions: Partitions
    _queues: PartitionQueues
    _remaker: Remaker
    _states: KvStates
    _wake: Callable[[str], None]
    _waiting: set[tuple[str, int]] = field(init=False, factory=set)
    """Topics of namespaces, with the partitions of each to look at."""
    _busy: set[tuple[str, int]] = field(init=False, factory=set)
    """The partitions that are being looked at."""
    _news: trio.Event = field(init=False, factory=trio.Event)

    def changed(self, topic: str) -> None:
        """Note that a topic's logical queues have changed."""
        mapping = self._logical.mappings.get(topic)
        if topic.startswith(KV_PREFIX) and mapping is not None:
            self._waiting.update((topic, index) for index in mapping.queues)
            self._news.set()

    async def run(self) -> None:
        """Follow the logical queues of all namespaces, until cancelled.

        A partition that has to wait, for a broker that does not answer, holds up no other.
        """
        self._busy.clear()
        await self._map_first()
        for topic in list(self._logical.mappings):
            self.changed(topic)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._leftovers.run)
            nursery.start_soon(self._bases.run)
            while True:
                self._news = trio.Event()
                for place in sorted(self._waiting - self._busy):
                    self._busy.add(place)
                    nursery.start_soon(self._look, *place)
                with trio.move_on_after(LOOK_S if self._waiting else math.inf):
                    await self._news.wait()

    async def _look(self, topic: str, index: int) -> None:
        """Take over a partition that has come, or release one that is elsewhere, as far as that
        is possible."""
        mapping = self._logical.mappings.get(topic)
        is_done = True
        try:
            if mapping is not None and index in mapping.queues:
                is_done = await self._follow(mapping, index)
        finally:
            self._busy.discard((topic, index))
        if is_done and self._logical.mappings.get(topic) is mapping:
            self._waiting.discard((topic, index))

    def set_aside(self, name: str) -> bool:
        """Have a partition made again whose state was damaged and is gone; returns whether its log
        is known, so that this can be done."""
        topic = kv_topic(parse_partition(name)[0])
        if topic not in self._logical.mappings:
            return False
        self._partitions.waits_for[name] = "its state was damaged, and is made again"
        self.changed(topic)
        return True

    def why_it_stays(self, topic: str, index: int) -> str:
        """Return the reason why a partition cannot go on elsewhere yet; empty where it can."""
        if not topic.startswith(KV_PREFIX):
            return ""
        name = partition_name(kv_namespace(topic) or "", index)
        if name in self._states.states and self._partitions.is_open(name):
            return ""
        why = self._partitions.waits_for.get(name, "it has no state")
        return f"partition {index} of {topic} has not arrived here yet ({why}): try again later"

    async def _map_first(self) -> None:
        """Map the logs of namespaces that are older than partitions to logical queues."""
        for name in list(self._states.states):
            topic = kv_topic(parse_partition(name)[0])
            if self._states.states[name].meta.deleted:
                continue
            if topic not in self._logical.mappings:
                try:
                    await self._queues.map_first(topic)
                except Refused as error:
                    LOGGER.warning("%s has no logical queue yet: %s", topic, error.remark)

    async def _follow(self, mapping: TopicMapping, index: int) -> bool:
        """Follow one partition; returns whether nothing is left to do."""
        name = partition_name(kv_namespace(mapping.topic) or "", index)
        end = mapping.chain(index).normal
        try:
            if end is None:
                self._wake(name)
            elif end.broker_name == self._broker_name:
                await self._come(name, mapping, end)
                if self._states.why_closed(name):  # it follows its log yet, or was damaged again
                    if name in self._states.states:
                        self._partitions.waits_for.pop(name, None)
                    return False
            elif not self._leave(name, mapping, end):
                return False
        except (OSError, StoreError, Refused, RemoteProtocolError) as error:
            self._note(name, error.remark if isinstance(error, Refused) else str(error))
            return False
        except Exception:  # a fault of ours costs this partition alone, and is tried again
            LOGGER.exception("partition %s cannot be followed", name)
            self._note(name, "the server failed; its log says why")
            return False
        self._partitions.waits_for.pop(name, None)
        self._partitions.followed.add(name)
        return True

    def _note(self, name: str, why: str) -> None:
        if self._partitions.waits_for.get(name) != why:
            LOGGER.warning("partition %s is not open yet: %s", name, why)
            self._partitions.waits_for[name] = why

    # Coming

    async def _come(self, name: str, mapping: TopicMapping, end: Segment) -> None:
        """Get the state for a log that goes on here.

        Raises ``Refused``, ``RemoteProtocolError`` and as disks do while it cannot be had.
        """
        state = self._states.states.get(name)
        shift = end.shift
        is_there = state is not None and name not in self._partitions.waits_for
        if is_there and state and (state.meta.queue_id, state.meta.shift) == (end.queue_id, shift):
            return
        self._partitions.waits_for.setdefault(name, "its state comes")
        meta = KvMeta(queue_id=end.queue_id, shift=shift, first=end.delta)
        sources, first = state_sources(mapping, end), beginning(mapping, end)
        if end.is_forced:
            await self._lose(name, end, meta)
        elif self._has_it(name, sources, meta):
            await self._go_on(name, meta)
        elif first is not None and self._remaker.has_all(first):
            await self._remaker.of_log(name, first)
        elif await self._remaker.of_base(name, mapping, end):
            await self._states.flush()
        elif sources or end.delta:
            await self._bring(name, sources, meta)
        elif first is not None and self._remaker.has_any(first):
            await self._remaker.of_log(name, first)  # to be lost: its beginning is gone
        # Else nothing was ever written, and what makes it comes again.

    def _has_it(self, name: str, sources: list[Segment], meta: KvMeta) -> bool:
        """Return whether the state is here, as it was when the log went elsewhere."""
        state = self._states.states.get(name)
        is_source = any(source.broker_name == self._broker_name for source in sources)
        return bool(is_source and state and state.meta.next == meta.first and not state.meta.lost)

    async def _go_on(self, name: str, meta: KvMeta) -> None:
        """Go on with the state that is here. Raises ``OSError``, ``StoreError``."""
        await self._bases.keep(name)
        before = self._states.states[name].meta
        meta.partition, meta.partitions = before.partition, before.partitions
        self._states.kept.follow(name, meta)
        await self._states.catch_up()
        await self._states.flush()

    async def _bring(self, name: str, sources: list[Segment], meta: KvMeta) -> None:
        """Bring the state from the first of ``sources`` that has it.

        Raises ``Refused``, ``RemoteProtocolError``, and as disks do.
        """
        why: Exception = RemoteProtocolError(
            f"no broker is known that has its state at record {meta.first}"
        )
        for source in sources:
            if source.broker_name == self._broker_name:
                continue
            try:
                await self._fetcher.take_over(name, source, meta)
            except (Refused, RemoteProtocolError) as error:
                why = error
            else:
                return
        raise why

    async def _lose(self, name: str, end: Segment, meta: KvMeta) -> None:
        """Note that a partition was gone past, and that its state is at a broker that is gone.

        Older rows, where there are any, stay until it is cleared, for tools on the store at
        rest.
        """
        LOGGER.critical(
            "partition %s is lost: its log went on here at record %d by an operator's word, past "
            "the broker that has its state; nothing of it is served until a snapshot is imported",
            name,
            end.delta,
        )
        state = self._states.states.get(name)
        _, meta.partition = parse_partition(name)
        meta.partitions = state.meta.partitions if state is not None else 0
        if state is None:
            state = await self._states.make(name, meta)
        self._states.kept.follow(name, meta, lost_at=end.delta)

    # Leaving

    def _leave(self, name: str, mapping: TopicMapping, end: Segment) -> bool:
        """Stop the state of a partition that went on elsewhere from following its log."""
        self._wake(name)
        state = self._states.states.get(name)
        self._states.damage.awaited.discard(name)
        if state is None or state.meta.queue_id == NO_QUEUE:
            return True
        needed = sealed_at(mapping, end.logical_index, state.meta)
        if state.meta.next < needed and not (end.is_forced or state.meta.lost):
            return False  # what is stored here has yet to be applied
        self._states.kept.release(name)
        return True

    async def made_for(self, name: str, position: int) -> KvState | None:
        """Return the state with which a log went on elsewhere, made again where it is gone.

        None where neither the log here nor a base and the log behind it go up to ``position``.
        Raises ``OSError``, ``StoreError``.
        """
        state = self._states.states.get(name)
        namespace, partition = parse_partition(name)
        mapping = self._logical.mappings.get(kv_topic(namespace))
        if state is not None or mapping is None or name in self._partitions.waits_for:
            return state
        end = mapping.chain(partition).normal
        if end is None or end.broker_name == self._broker_name:
            return None
        for segment in mapping.chain(partition):
            is_end = segment.next_delta == position and segment.count
            if not is_end or not self._is_last(mapping, segment):
                continue
            first = beginning(mapping, segment)
            if first is not None and self._remaker.has_all(first):
                await self._remaker.of_log(name, first)
            else:
                await self._remaker.of_base(name, mapping, segment)
            self.changed(segment.topic)  # it goes again once it is elsewhere
        return self._states.states.get(name)

    def _is_last(self, mapping: TopicMapping, segment: Segment) -> bool:
        """Return whether a sealed segment is here, and nothing is behind it in its queue."""
        end = self._logical.end_offset(segment.topic, segment.queue_id)
        return segment.is_sealed and mapping.is_own(segment) and segment.offset_max == end
