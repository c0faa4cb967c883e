"""Late commits: offsets of groups that came to a former end of a logical queue, and are passed on.

Each broker at which queues end now has a task of its own, so that one that does not answer holds
up nothing but what is for it.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, final

import trio

from lanemq.storage import OffsetTable
from lanemq.wire import ProtocolError, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import UpdateConsumerOffset
from lanemq.wire.logical import Segment, SegmentState, progress_topic

from ....broker._peers import Peers
from ...rules._forwarding import HOPS_FIELD
from ...rules._mapping import TopicMapping
from ..state._state import LogicalState

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

QUEUED_MAX: Final = 10_000
"""Most commits that wait; beyond it the oldest are dropped, and the next one counts."""
RETRY_S: Final = 1.0
TELL_S: Final = 2.0
WAIT_S: Final = 1.0
"""The longest wait of a client for its commit to be passed on; clients give a broker 3 s."""
GIVE_UP_S: Final = 120.0
"""Seconds after which a commit is given up that could not be passed on; it is kept here."""
LOOK_S: Final = 30.0
"""Seconds after which all that wait are looked at, whatever has changed."""

Key = tuple[str, str, int]
"""Group, topic, index."""

Worth = Callable[[str, TopicMapping, int, int, int], int]
"""Bounds a group's offset in a mapping's logical queue, committed in segments that begin at a
place: ``LogicalProgress.worth``."""

CommitHere = Callable[[str, str, int, int], None]
"""Keeps the offset of a group, topic and queue."""


class _Late(NamedTuple):
    """A commit to pass on."""

    offset: int
    delta: int
    """The first logical offset of the segments that it was committed in."""
    hops: int
    """The number of times it was passed on before."""
    until_s: float
    tried: trio.Event
    """Set when it was passed on, or could not be for now."""


@final
class LateCommits:
    """The late commits of one broker; ``run`` is the task that passes them on."""

    def __init__(
        self,
        logical: LogicalState,
        offsets: OffsetTable,
        peers: Peers,
        *,
        commit: CommitHere,
        worth: Worth,
    ) -> None:
        self._logical = logical
        self._offsets = offsets
        self._peers = peers
        self._commit = commit
        self._worth = worth
        self._late: dict[Key, _Late] = {}
        self._fresh: set[Key] = set()
        """The commits to look at next."""
        self._queued: dict[str, dict[Key, None]] = {}
        """For each broker with a task the commits to pass on to it, in order."""
        self._away: set[str] = set()
        """Those of them that did not answer the last time."""
        self._wake = trio.Event()

    def add(self, key: Key, offset: int, delta: int, hops: int) -> None:
        """Pass a commit on soon. One that other brokers passed on never replaces a greater one."""
        known = self._late.get(key)
        if known is not None and hops and offset <= known.offset:
            return
        if known is None and len(self._late) >= QUEUED_MAX:
            self._drop(next(iter(self._late)))
        is_awaited = known is not None and not known.tried.is_set()
        tried = known.tried if known is not None and is_awaited else trio.Event()
        self._late[key] = _Late(offset, delta, hops, trio.current_time() + GIVE_UP_S, tried)
        self._look_at(key)

    async def tried(self, key: Key) -> None:
        """Wait until a commit was passed on, or could not be for now; no longer than ``WAIT_S``.

        A consumer that takes the queue next asks at its end.
        """
        late = self._late.get(key)
        if late is not None:
            with trio.move_on_after(WAIT_S):
                await late.tried.wait()

    def waits(self, key: Key) -> bool:
        """Return True if a commit was not tried to be passed on yet."""
        late = self._late.get(key)
        return late is not None and not late.tried.is_set()

    def changed(self, topic: str) -> None:
        """Look at what waits for a topic: its mapping has changed."""
        if self._late:
            self._look_at(*(key for key in self._late if key[1] == topic))

    def _look_at(self, *keys: Key) -> None:
        self._fresh.update(keys)
        self._wake.set()

    def _drop(self, key: Key) -> None:
        self._late.pop(key).tried.set()

    async def run(self) -> None:
        """Pass on what comes, until cancelled."""
        self._queued.clear()
        self._away.clear()
        self._fresh.update(self._late)
        async with trio.open_nursery() as nursery:
            while True:
                self._wake = trio.Event()
                fresh, self._fresh = self._fresh, set()
                for key in fresh:
                    name = self._route(key)
                    if name is None:
                        continue
                    if name not in self._queued:
                        self._queued[name] = {}
                        nursery.start_soon(self._serve, name)
                    self._queued[name][key] = None
                    if name in self._away:
                        self._late[key].tried.set()
                with trio.move_on_after(LOOK_S) as scope:
                    await self._wake.wait()
                if scope.cancelled_caught:
                    self._fresh.update(self._late)

    def _end(self, key: Key) -> tuple[TopicMapping, Segment] | None:
        _, topic, index = key
        mapping = self._logical.get(topic)
        end = None if mapping is None else mapping.open_end(index)
        return None if mapping is None or end is None else (mapping, end)

    def _route(self, key: Key) -> str | None:
        """Return the name of the broker to pass a commit on to; None for none now."""
        late, found = self._late.get(key), self._end(key)
        if late is None:
            return None
        if found is None or trio.current_time() >= late.until_s:
            self._drop(key)
            return None
        mapping, end = found
        if end.state is SegmentState.WRITE_ONLY:
            return None  # it has to open first
        if not mapping.is_own(end):
            return end.broker_name
        # The migration was called off, or the queue came back.
        group, topic, index = key
        name, offset = progress_topic(topic, end.delta), self._bounded(key, late, mapping)
        if offset > (self._offsets.get(group, name, index) or 0):
            self._commit(group, name, index, offset)
        if self._late.get(key) is late:
            self._drop(key)
        return None

    def _bounded(self, key: Key, late: _Late, mapping: TopicMapping) -> int:
        """Bound a late offset again: the queue may have been taken past what was read since."""
        return self._worth(key[0], mapping, key[2], late.delta, late.offset)

    async def _serve(self, name: str) -> None:
        """Pass on what is for one broker, until there is nothing left."""
        queued = self._queued[name]
        while queued:
            again: list[Key] = []
            while queued:
                key = next(iter(queued))
                del queued[key]
                if self._route(key) != name:
                    self._look_at(key)
                    continue
                if not await self._pass_on(key, name):
                    again.append(key)
                if name in self._away:
                    for waiting in queued:
                        if waiting in self._late:
                            self._late[waiting].tried.set()
                    break
            if again:
                await trio.sleep(RETRY_S)
                queued.update(dict.fromkeys(again))
        self._away.discard(name)
        del self._queued[name]

    async def _pass_on(self, key: Key, name: str) -> bool:
        """Pass a commit on; return whether it was, or never can be."""
        found = self._end(key)
        assert found is not None, "it has just been routed"
        (group, topic, index), late, (mapping, end) = key, self._late[key], found
        offset = self._bounded(key, late, mapping)
        header = UpdateConsumerOffset(group, progress_topic(topic, end.delta), index, offset)
        fields = header.to_fields() | {HOPS_FIELD: str(late.hops + 1)}
        asked = request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        try:
            answer = await self._peers.call(name, end.broker_address, asked, TELL_S)
        except Refused as error:
            self._away.add(name)
            problem: str | None = error.remark
        except ProtocolError as error:  # it fits into no frame
            LOGGER.warning("progress of %s in %s cannot be passed on: %s", group, end, error)
            problem = None
        else:
            self._away.discard(name)
            problem = _refusal(answer)
        if problem is not None:
            LOGGER.info("progress of %s in %s is not passed on yet: %s", group, end, problem)
            late.tried.set()
            return False
        if self._late.get(key) is late:
            self._drop(key)
        else:
            self._look_at(key)  # there is a later one
        return True


def _refusal(answer: Frame) -> str | None:
    if answer.code == ResponseCode.SUCCESS:
        return None
    return f"response code {answer.code}: {answer.remark}"
