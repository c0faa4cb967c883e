"""Messages that a broker has stored behind the end of a part: they are sent again to the open one.

Delayed messages and halves of transactions wait at the broker that took them, and come into its
queue when their time is there, also after the queue has gone on elsewhere; and who goes direct
may write there. One proxy at a time looks for them. Before each message it writes down which one it
is, and from where on the message would be found where it goes: a successor looks there first.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient
from lanemq.wire import RemoteProtocolError, ResponseCode
from lanemq.wire.message import StoredMessage, decode_messages

from ..kv import KeysUnavailable, TooLong
from ..order import MovedQueue, Part
from ._left_progress import LeftProgress, LostEnds, decode_progress, left_key
from ._move_brokers import max_offset
from ._numbers import NEXT
from ._queues import MovingQueues
from ._records import offset_of
from ._resends import ASK_S, PROPERTY, PULLED, STORED, SentAlready, mark_of, pull, sent_again

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

APPENDS: Final = b"appends"
TTL_S: Final = 15.0
SURE_S: Final = 8.0
RENEW_S: Final = 4.0
LOOK_S: Final = 2.0
"""Seconds between looks at the ends of all parts."""
DOUBT_S: Final = 60.0
"""Seconds after which a message whose sending had no answer is no longer on its way."""


@dataclass
class _Doubt:
    """The last message that was written down: it may be on its way, or be sent already."""

    version: int
    """The version of the entry that names it."""
    since_s: float
    at: int
    """From where on it is looked for; before, it is not."""


@final
class LeftBehind:
    """Sends again what was left behind, of all topics; ``run`` is its task."""

    def __init__(
        self,
        moving: MovingQueues,
        client: RemotingClient,
        address: Callable[[str], str | None],
    ) -> None:
        self._moving = moving
        self._keys = moving.orders.keys
        self._client = client
        self._address = address
        self._sent_already = SentAlready(client, address)
        self._own = os.urandom(8).hex().encode()
        self._until_s = -1.0
        self._renew_s = -1.0
        self._places: dict[bytes, LeftProgress] = {}
        self._versions: dict[bytes, int] = {}
        """The versions of entries as this process has read or written them."""
        self._unsettled: set[bytes] = set()
        """Entries that name a message which is sent already."""
        self._doubts: dict[bytes, _Doubt] = {}
        self._said: dict[bytes, int] = {}
        """The parts whose failure is in the log, with the message at which they were; -1 for
        none."""
        self._lost = LostEnds()
        self.sent = 0
        """Messages that this process has sent again."""
        self.passed_over = 0
        """Messages that it has not, since their clients had."""

    async def run(self) -> None:
        """Look again and again, until cancelled; without a pause while there is more."""
        is_more = False
        while True:
            await trio.sleep(0 if is_more else LOOK_S)
            is_more = False
            if not any(len(moved.parts) > 1 for _, moved in self._moving.all()):
                continue
            try:
                if await self._is_chosen():
                    is_more = await self._look()
            except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
                LOGGER.info("what was left behind cannot be looked for now: %s", error)

    async def _is_chosen(self) -> bool:
        """Return whether this process is the one to look, for ``SURE_S`` at least."""
        now_s = self._moving.lease.now_s()
        if now_s < self._renew_s:
            return self._moving.lease.is_sure
        if not self._moving.lease.is_sure:
            return False
        entry = self._keys.get(APPENDS)
        if entry is not None and entry.value != self._own:
            return False
        expected = 0 if entry is None else entry.version
        version = await self._keys.put(APPENDS, self._own, expected=expected, ttl_s=TTL_S)
        if version is None:
            return False
        if now_s > self._until_s:
            self._places.clear()  # another one may have looked meanwhile
        self._until_s, self._renew_s = now_s + SURE_S, now_s + RENEW_S
        return True

    def _may_send(self) -> bool:
        return self._moving.lease.now_s() < self._until_s and self._moving.lease.is_sure

    async def _look(self) -> bool:
        """Send some of what is behind the end of each part: one that gets more and more holds up
        no other one. Returns whether any has more.

        Raises ``KeysUnavailable`` where this process cannot be chosen.
        """
        is_more = False
        for topic, moved in list(self._moving.all()):
            for part in moved.parts[:-1]:
                if not await self._is_chosen():
                    return False
                is_more |= await self._is_more_at(topic, moved, part)
        return is_more

    async def _is_more_at(self, topic: str, moved: MovedQueue, part: Part) -> bool:
        """Look at one part, whose failure holds up no other one; returns as ``_look_at``."""
        key = left_key(topic, part)
        try:
            is_more = await self._look_at(key, topic, moved, part)
        except LanemqError as error:
            place = self._places.get(key)
            at = -1 if place is None else place.next
            if self._said.get(key) != at:
                LOGGER.warning(
                    "topic %s: what queue %d of %s has behind its end, from its message %s on, "
                    "cannot be sent to the open end now: %s",
                    topic,
                    part.queue_id,
                    part.broker,
                    "?" if at < 0 else at,
                    error,
                )
            self._said[key] = at
        except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
            LOGGER.info("%s: what was left behind cannot be sent now: %s", key.decode(), error)
        else:
            self._said.pop(key, None)
            return is_more
        return False

    async def _look_at(self, key: bytes, topic: str, moved: MovedQueue, part: Part) -> bool:
        """Send some of what is behind the end of a part; returns whether there may be more.

        Raises ``LanemqError``, ``KeysUnavailable``, ``RemoteProtocolError``.
        """
        place = self._places.get(key)
        if place is None:
            place = await self._resumed(key, topic, part)
            if place is None:
                return False
            self._places[key] = place
            self._doubts.pop(key, None)
        source = self._address(part.broker)
        if source is None:
            return False
        most = await max_offset(self._client, source, topic, part.queue_id)
        self._lost.note(topic, moved, part, most)
        if most <= place.next:
            await self._settle(key, place)
            return False
        messages = await self._pulled(source, topic, part, place.next)
        for message in messages:
            later = self._moving.now(topic, moved.place).parts[moved.parts.index(part) + 1 :]
            is_there = await self._sent_already.has(message, later)
            current = self._moving.now(topic, moved.place)
            if current.is_sealing or not self._may_send():
                return False
            if is_there:
                self.passed_over += 1
                self._places[key] = place = LeftProgress(message.queue_offset + 1)
                self._unsettled.add(key)
                continue
            target = current.last
            to = self._address(target.broker)
            if to is None:
                return False
            floor = await max_offset(self._client, to, topic, target.queue_id)
            del self._places[key]  # until the answer is there
            await self._write(key, LeftProgress(message.queue_offset, floor, target.place))
            if not self._may_send():
                return False
            try:
                again = sent_again(message, part, target)
                await self._client.call(to, again, ASK_S, accept=STORED)
            except RefusedByBroker:
                # It is not stored, without a doubt.
                self._places[key] = LeftProgress(message.queue_offset)
                raise
            self.sent += 1
            self._places[key] = place = LeftProgress(message.queue_offset + 1)
        return bool(messages)

    async def _resumed(self, key: bytes, topic: str, part: Part) -> LeftProgress | None:
        """Return where to go on: the last message that was written down may be sent already.

        While it may be on its way yet, or another process is chosen, returns None. Other parts do
        not wait for it.
        """
        entry = await self._keys.read(key)
        version = self._versions[key] = 0 if entry is None else entry.version
        if entry is None:
            return LeftProgress(part.read_end)
        place = decode_progress(key, entry.value)
        if place.floor < 0:
            return place
        doubt = self._doubts.get(key)
        if doubt is None or doubt.version != version:
            doubt = self._doubts[key] = _Doubt(version, trio.current_time(), place.floor)
        if trio.current_time() - doubt.since_s < DOUBT_S:
            return None
        is_there = await self._is_there(doubt, topic, part, place)
        if is_there is None:
            return None
        settled = LeftProgress(place.next + 1 if is_there else place.next)
        await self._write(key, settled)  # no successor has to look for it once more
        return settled

    async def _is_there(
        self, doubt: _Doubt, topic: str, part: Part, place: LeftProgress
    ) -> bool | None:
        """Return whether a message is where it was to go; None if another process is chosen."""
        broker, queue_id = place.target
        to = self._address(broker)
        if to is None:
            raise KeysUnavailable(f"broker {broker} is not known to be anywhere")
        mark = mark_of(part, place.next)
        end = await max_offset(self._client, to, topic, queue_id)
        while doubt.at < end:
            if not await self._is_chosen():
                return None
            answer = await pull(self._client, to, topic, queue_id, doubt.at)
            if answer.code == ResponseCode.SUCCESS and any(
                record.properties.get(PROPERTY) == mark
                for record in decode_messages(answer.body, asked=PULLED)
            ):
                return True
            following = offset_of(answer.fields.get(NEXT))
            if following <= doubt.at:
                raise RemoteProtocolError(f"broker {broker} does not give its messages")
            doubt.at = following
        return False

    async def _settle(self, key: bytes, place: LeftProgress) -> None:
        """Write down that all is sent, so that a successor need not look for the last message."""
        if key in self._unsettled:
            await self._write(key, place)

    async def _write(self, key: bytes, place: LeftProgress) -> None:
        """Raises ``KeysUnavailable``, also where another process has written meanwhile."""
        value = msgspec.json.encode(place)
        version = await self._keys.put(key, value, expected=self._versions[key])
        if version is None:
            self._places.pop(key, None)
            raise KeysUnavailable("another proxy sends what was left behind")
        self._versions[key] = version
        if place.floor < 0:
            self._unsettled.discard(key)
        else:
            self._unsettled.add(key)

    async def _pulled(
        self, address: str, topic: str, part: Part, offset: int
    ) -> list[StoredMessage]:
        """Return messages from an offset on."""
        answer = await pull(self._client, address, topic, part.queue_id, offset)
        if answer.code != ResponseCode.SUCCESS:
            following = offset_of(answer.fields.get(NEXT, str(offset)))
            if following > offset:
                LOGGER.warning(
                    "topic %s: what queue %d of %s had behind its end is deleted there from message"
                    " %d to %d, before it was sent to the open end",
                    topic,
                    part.queue_id,
                    part.broker,
                    offset,
                    following - 1,
                )
                self._places[left_key(topic, part)] = LeftProgress(following)
            return []
        return decode_messages(answer.body, asked=PULLED)
