"""The look at the rest of a drained broker: unread messages, and those behind the ends of queues.

Whoever is not known to have read all has something to read: a verdict that is wrong loses messages.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, final

import trio

from lanemq.sdk import RefusedByBroker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import TopicConfig, UnreadPart
from lanemq.wire.frame import request
from lanemq.wire.headers import (
    GetMinOffset,
    QueryConsumerOffset,
)

from ..order import MovedQueue, Part
from ._context import MoveContext
from ._heard import has_heard
from ._left_progress import next_left
from ._move_brokers import has_dispatched, max_offset
from ._permissions import have_nobody_write
from ._progress import Offsets, indexed, note_begin
from ._records import offset_of
from ._resends import READER

ASK_S: Final = 3.0
LOOK_S: Final = 1.0
DIRECT_S: Final = 35.0
"""Seconds after which producers that go direct, and ask for routes every 30 s, have stopped."""
DISPATCHED_S: Final = 30.0
"""Seconds that a broker's queues may be behind its log; one that writes much is never quite up."""
SENT_S: Final = 10.0
"""Seconds that messages behind ends get to be sent on: they are looked for every 2 s."""
UNREAD_MAX: Final = 1000
"""Most groups that are named."""
PARTS_TURN: Final = 100


class PartThere(NamedTuple):
    """A part of a queue that has ended at the broker."""

    topic: str
    moved: MovedQueue
    at: int
    """Its number."""

    @property
    def part(self) -> Part:
        return self.moved.parts[self.at]


@final
class Rest:
    """The look at one broker. Methods raise ``LanemqError``, ``RemoteProtocolError``,
    ``KeysUnavailable``, ``TooLong``."""

    def __init__(
        self, context: MoveContext, broker: str, read_only_since: dict[str, float]
    ) -> None:
        """``read_only_since`` keeps, by broker, when this process has last seen that somebody
        could write there."""
        self._context = context
        self._moving = context.moving
        self._client = context.client
        self._admin = context.admin
        self._address = context.address
        self._at = context.known
        self._broker = broker
        self._since = read_only_since
        self._registered: dict[str, frozenset[str]] = {}
        self.unread: list[UnreadPart] = []
        """Groups that have messages to read there."""
        self.behind = 0
        """Messages behind ends of queues that are not sent on yet."""
        self.why_unknown = ""
        """The reason why it is not known who needs it; empty if it is."""

    @property
    def is_nothing(self) -> bool:
        """Return whether nobody needs what is there."""
        return not (self.unread or self.behind or self.why_unknown)

    async def look(self, say: Callable[[str], None], *, is_last: bool) -> None:
        """Take the permission to write away, and find what is left.

        ``say`` is told what it waits for. Unless ``is_last``, as queues are written there yet, it
        waits for nothing.
        """
        address = self._address(self._broker)
        if address is None:
            self.why_unknown = f"broker {self._broker} is not there: nobody knows what it has"
            return
        configs = (await self._admin.topic_configs(address)).topic_config_table
        parts = await self._parts(configs)
        await self._have_nobody_write(address, configs, {one.topic for one in parts})
        if is_last and parts:
            say("waits until producers that go direct have asked for their routes")
            await trio.sleep_until(self._since[self._broker] + DIRECT_S)
        say("waits until what is behind the ends is sent on")
        until_s = trio.current_time() + (SENT_S if is_last else 0)
        while True:
            self.behind = await self._count_behind(address, parts)
            if not self.behind or trio.current_time() >= until_s:
                break
            await trio.sleep(LOOK_S)
        say("looks at groups that read there")
        await self._find_unread(parts)
        while is_last and parts and not await has_heard(self._context, self._broker, say):
            self._registered.clear()
            await self._find_unread(parts)

    async def lost(self, is_deleted: Callable[[str], bool]) -> str:
        """Return a topic of which the broker has not all that queues had there; empty if it has
        all of those that are not deleted."""
        configs = (await self._admin.topic_configs(self._at(self._broker))).topic_config_table
        for topic, moved in list(self._moving.all()):
            for part in moved.parts[:-1]:
                if part.broker != self._broker or part.read_end <= 0 or is_deleted(topic):
                    continue
                if topic not in configs or await self._max(topic, part) < part.read_end:
                    return topic
        return ""

    async def _parts(self, configs: Collection[str]) -> list[PartThere]:
        """Return the parts at the broker, of topics that it still has."""
        found: list[PartThere] = []
        for number, (topic, moved) in enumerate(self._moving.all()):
            if not number % PARTS_TURN:
                await trio.lowlevel.checkpoint()
            if topic in configs:
                found += (
                    PartThere(topic, moved, at)
                    for at, part in enumerate(moved.parts[:-1])
                    if part.broker == self._broker
                )
        return found

    async def _have_nobody_write(
        self, address: str, configs: Mapping[str, TopicConfig], topics: Iterable[str]
    ) -> None:
        self._since.setdefault(self._broker, trio.current_time())
        for topic in sorted(topics):
            if await have_nobody_write(
                self._moving, self._admin, self._broker, address, configs[topic]
            ):
                self._since[self._broker] = trio.current_time()

    # What is behind the ends

    async def _count_behind(self, address: str, parts: Iterable[PartThere]) -> int:
        with trio.move_on_after(DISPATCHED_S) as scope:
            await has_dispatched(self._admin, address)
        self.why_unknown = ""
        if scope.cancelled_caught:
            self.why_unknown = (
                f"the queues of broker {self._broker} stay behind its log: nobody knows what "
                "belongs to moved ones"
            )
        count = 0
        for one in parts:
            end = await self._max(one.topic, one.part)
            sent = await next_left(self._moving.orders.keys, one.topic, one.part)
            if end > sent:
                count += max(0, end - max(sent, await self._least(one.topic, one.part)))
        return count

    # Who has to read

    async def _find_unread(self, parts: list[PartThere]) -> None:
        names = sorted({part.broker for one in parts for part in one.moved.parts})
        topics = {one.topic for one in parts}
        offsets: dict[str, Offsets] = {}
        for name in names:
            at = self._address(name)
            stand = self._moving.stands.of(name)
            if self._moving.stands.is_forgotten(name):
                continue
            if at is not None:
                offsets[name] = await indexed(await self._admin.offset_table(at), topics)
            elif stand is None or not stand.is_done:
                self.why_unknown = (
                    f"broker {name}, which has other parts of the queues, is not there: nobody "
                    "knows who reads them"
                )
        unread: Counter[tuple[str, str]] = Counter()
        for number, one in enumerate(parts):
            if not number % PARTS_TURN:
                await trio.lowlevel.checkpoint()
            for group, count in (await self._unread_of(one, offsets)).items():
                unread[one.topic, group] += count
        found = sorted(unread.items())[:UNREAD_MAX]
        self.unread = [UnreadPart(*key, count) for key, count in found]

    async def _unread_of(self, one: PartThere, offsets: Mapping[str, Offsets]) -> dict[str, int]:
        """Return how much of a part each group has to read, and note its begin at the next part:
        there the progress is once the broker is gone, and a group without any would begin where
        it chooses, at the end maybe. Before that it does not count."""
        topic, end = one.topic, one.part.read_end
        by_part = [
            offsets.get(part.broker, {}).get((topic, part.queue_id), {}) for part in one.moved.parts
        ]
        here, later = by_part[one.at], by_part[one.at + 1 :]
        groups = {group for part in by_part[: one.at + 1] for group in part}
        if end > 0:
            groups |= await self._registered_for(topic, one.moved.last.broker)
        least = -1
        found: dict[str, int] = {}
        for group in sorted(groups):
            if any(part.get(group) for part in later):
                continue
            # One without progress here is still at an earlier part, or at its first begin.
            offset = here.get(group, 0)
            if offset < end and least < 0:
                least = await self._least(topic, one.part)
            if offset < end and least < end:
                found[group] = end - max(offset, least)
            if group in here and group not in later[0]:
                await self._note_begin(topic, one.moved.parts[one.at + 1 :], group)
        return found

    async def _registered_for(self, topic: str, last: str) -> frozenset[str]:
        """Return the groups that the brokers of a topic know, with progress there or without."""
        if topic not in self._registered:
            found: set[str] = set()
            for name in {self._broker, last}:
                try:
                    found.update(await self._admin.groups_of_topic(self._at(name), topic))
                except RefusedByBroker as error:
                    if error.code != ResponseCode.TOPIC_NOT_EXIST:
                        raise
            self._registered[topic] = frozenset(found - {READER})
        return self._registered[topic]

    async def _note_begin(self, topic: str, later: Iterable[Part], group: str) -> None:
        """Give a group progress at the begin of the next part that is there, if it has none.

        The move has done so, and each commit through a proxy: this is for the groups of earlier
        versions' moves, and those that have come while the queue was moved.
        """
        stands = self._moving.stands
        there = (one for one in later if self._address(one.broker) is not None)
        part = next((one for one in there if not stands.is_forgotten(one.broker)), None)
        if part is None:
            return
        at = self._at(part.broker)
        query = QueryConsumerOffset(group, topic, part.queue_id).to_fields()
        try:
            asked = request(RequestCode.QUERY_CONSUMER_OFFSET, query)
            answer = await self._client.call(at, asked, ASK_S)
            if offset_of(answer.fields.get("offset")) > 0:
                return  # it has read on since the tables were read
        except RefusedByBroker as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
        await note_begin(self._client, at, topic, part.queue_id, group)

    async def _least(self, topic: str, part: Part) -> int:
        """Return the offset of the first message that a broker has in a queue."""
        header = GetMinOffset(topic, part.queue_id).to_fields()
        asked = request(RequestCode.GET_MIN_OFFSET, header)
        answer = await self._client.call(self._at(part.broker), asked, ASK_S)
        return max(0, offset_of(answer.fields.get("offset")))

    async def _max(self, topic: str, part: Part) -> int:
        at = self._at(part.broker)
        return max(0, await max_offset(self._client, at, topic, part.queue_id))
