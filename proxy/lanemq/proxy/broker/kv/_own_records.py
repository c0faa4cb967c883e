"""The records that a broker writes by itself: ticks, identities, and what its policy compacts."""

import math
from collections.abc import Callable, Iterable
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreConfig
from lanemq.storage.kv import KvState, history_for_room, history_to_keep, operation_properties
from lanemq.wire import Refused
from lanemq.wire.kv import OpType, encode_compact, parse_partition

from ...logical.rules._gate import SegmentClosed
from ._claims import Claims
from ._log_clock import LogClock
from ._partitions import Partitions

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
LOOK_S: Final = 10.0
"""Seconds between two looks at how much history there is."""
Append = Callable[[str, KvState, bytes, bytes], int]
"""Appends a record to the log of a partition of a namespace, and returns its position there;
raises as ``Writer.append``."""


@final
@define(eq=False, kw_only=True, repr=False)
class OwnRecords:
    """Writes them where they are due; ``tick`` is called several times a second.

    One record ends a limited number of entries and leases. Where more are due, ``run``, a task,
    writes the next one in the turn after it was applied: so many end as fast as records are
    applied, and others are served in between.
    """

    _append: Append
    _claims: Claims
    _clock: LogClock
    _commit: Callable[[], None]
    _config: StoreConfig
    _now_ms: Callable[[], int]
    _now_s: Callable[[], float]
    _partitions: Partitions
    _states: KvStates
    identified: set[str] = field(init=False, factory=set)
    """Partitions of namespaces of an earlier version whose identity is on its way into the log."""
    _left: list[str] = field(init=False, factory=list)
    """Partitions whose histories are still to be looked at."""
    _looked_s: float = field(init=False, default=-math.inf)
    _ending: dict[str, int] = field(init=False, factory=dict)
    """Partition -> the latest record written because something of it was due, until it is
    applied."""
    _more: set[str] = field(init=False, factory=set)
    """Partitions of which more is due than that record has ended."""
    _news: trio.Event = field(init=False, factory=trio.Event)

    async def run(self) -> None:
        """End what one record has left over in the next ones, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            more, self._more = self._more, set()
            try:
                if self._expire(more):
                    self._commit()
            except Refused as error:
                LOGGER.warning("entries do not expire now: %s", error.remark)
            await trio.lowlevel.checkpoint()

    def applied(self, name: str) -> None:
        """Note that records of a partition were applied."""
        self.identified.discard(name)
        state, position = self._states.states.get(name), self._ending.get(name)
        if state is None or position is None or state.meta.next <= position:
            return
        del self._ending[name]
        if self._is_due(name, state):
            self._more.add(name)
            self._news.set()

    def unwritten(self) -> None:
        """Note that records could not be written to the log."""
        self.identified.clear()
        self._ending.clear()

    def tick(self) -> None:
        """Let the log know the time where an entry's time has come, and what else is due.

        Raises ``Refused`` if the log takes nothing.
        """
        self._clock.look()
        wrote = self._expire(list(self._states.states))
        wrote = self._identify() or wrote
        wrote = self._make_room() or self._compact() or wrote
        if wrote:
            self._commit()

    def _expire(self, names: Iterable[str]) -> bool:
        """Write the records by which entries and leases end; returns whether there are any."""
        found = False
        for name in names:
            state = self._states.states.get(name)
            if state is None or not self._is_due(name, state) or not self._takes(name):
                continue
            position = self._write(name, state, OpType.TICK, what="entries expire")
            if position is not None:
                self._ending[name] = position
                found = True
        return found

    def _is_due(self, name: str, state: KvState) -> bool:
        expiry_ms = state.meta.next_expiry_ms
        if 0 < expiry_ms <= self._now_ms() + self._clock.ahead_ms(name):
            return True
        # Each record frees a part of what a compaction has left behind.
        return state.meta.stale_from >= 0 and self._states.is_tight

    def _takes(self, name: str) -> bool:
        # None of these records adds an entry, and by those of time there is room again.
        is_open = self._partitions.is_open(name)
        return is_open and not self._states.why_refused(name, grows=False)

    def _identify(self) -> bool:
        """Write the identities of namespaces of earlier versions; returns whether there are any."""
        found = False
        for name, state in self._states.states.items():
            meta = state.meta
            if meta.identity or meta.deleted or not meta.next or name in self.identified:
                continue
            if not self._takes(name):
                continue
            identity = self._claims.identity_of_old(name)
            what = "the namespace gets its identity"
            if not identity:
                continue
            if self._write(name, state, OpType.TICK, what=what, identity=identity) is not None:
                self.identified.add(name)
                found = True
        return found

    def _make_room(self) -> bool:
        """Compact the longest history where memory is tight, before writes are refused for it;
        returns whether one was.

        How much is freed is known once nothing of the last compaction is left behind.
        """
        if not self._states.is_tight:
            return False
        taking = {name: one for name, one in self._states.states.items() if self._takes(name)}
        if not taking or any(state.meta.stale_from >= 0 for state in taking.values()):
            return False
        name, state = max(taking.items(), key=lambda one: one[1].meta.changes)
        revision = history_for_room(state)
        if revision is None:
            return False
        LOGGER.info("the older half of the history of %s makes room in memory", name)
        body, what = encode_compact(revision), "the history makes room"
        return self._write(name, state, OpType.COMPACT, body, what=what) is not None

    def _compact(self) -> bool:
        """Compact a history that has more than is to be kept; returns whether it has.

        One partition is looked at in each turn: an age is looked for in the log.
        """
        config, now_s = self._config, self._now_s()
        if not (config.kv_history_revisions or config.kv_history_seconds):
            return False
        if not self._left and now_s - self._looked_s >= LOOK_S:
            self._looked_s, self._left = now_s, list(self._states.states)
        name = self._left.pop() if self._left else ""
        state = self._states.states.get(name)
        if state is None or state.meta.deleted or not state.meta.changes or not self._takes(name):
            return False
        try:
            revision = history_to_keep(
                state,
                self._states.logs[name],
                now_ms=self._now_ms() + self._clock.ahead_ms(name),
                age_ms=config.kv_history_seconds * 1000,
                revisions=config.kv_history_revisions,
            )
        except OSError as error:
            LOGGER.error("the history of %s is not compacted now: %s", name, error)
            return False
        if revision is None:
            return False
        body = encode_compact(revision)
        what = "the history is compacted"
        return self._write(name, state, OpType.COMPACT, body, what=what) is not None

    def _write(
        self,
        name: str,
        state: KvState,
        op_type: str,
        body: bytes = b"",
        *,
        what: str,
        identity: str = "",
    ) -> int | None:
        """Append a record; returns its position, or None where the log takes none now."""
        namespace, _ = parse_partition(name)
        time_ms = self._clock.time_ms(name)
        properties = operation_properties(op_type, identity=identity, time_ms=time_ms)
        try:
            return self._append(namespace, state, body, properties)
        except (Refused, SegmentClosed) as error:
            LOGGER.info("%s: %s later: %s", name, what, error)
            return None
