"""Locks of queues whose broker is drained: they are taken at the brokers that stand in for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, final

import msgspec
import trio

from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import FLAG_ONEWAY, Frame, request

from ...net._dispatch import check_body
from ._queues import MovingQueues

Code = RequestCode
LOCKS: Final = frozenset({Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ})
ASK_S: Final = 0.7
"""Seconds that brokers have to answer: clients give locks one second."""


class LocksOf(NamedTuple):
    """A request for locks of queues of one broker."""

    broker: str
    frame: Frame


@final
class StoodLocks:
    """The requests of all clients at one port."""

    def __init__(
        self, moving: MovingQueues, client: RemotingClient, address: Callable[[str], str | None]
    ) -> None:
        """``address`` gives that of a broker's master, also where name servers list it no longer:
        when one of them has just started, it does not know all yet."""
        self._moving = moving
        self._client = client
        self._address = address

    def is_elsewhere(self, brokers: Sequence[str]) -> bool:
        """Return whether locks of any of some brokers are not at the broker itself alone.

        Raises ``Refused`` where this proxy cannot know.
        """
        self._moving.check_sure()
        return any(self._places(one) != (one,) for one in brokers)

    def _places(self, broker: str) -> tuple[str, ...]:
        stands = self._moving.stands
        if stands.is_unreadable(broker):
            remark = f"this proxy cannot read who stands in for {broker}; its log says why"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        stand = stands.of(broker)
        return (broker,) if stand is None else stand.places

    async def answer(
        self,
        frame: Frame,
        asked: Sequence[LocksOf],
        seen: Callable[[str, Frame], Frame] = lambda _, answer: answer,
    ) -> Frame | None:
        """Return the answer to a request whose queues are those of several brokers.

        A lock is granted where all of its places grant it. Where a place does not say, its queues
        are not in the answer; if that holds for all of them, the request is refused: on an answer
        without its locks a client stops, and after a refusal it goes on until they have ended.
        ``seen`` gives the answer for a broker's queues as clients see it. Raises ``Refused``.
        """
        check_body(frame, is_json=True)
        era = self._moving.lease.era
        answers: list[list[Frame]] = [[] for _ in asked]
        ask = self._lock if frame.code == Code.LOCK_BATCH_MQ else self._unlock
        async with trio.open_nursery() as nursery:
            for one, found in zip(asked, answers, strict=True):
                nursery.start_soon(ask, one, self._places(one.broker), found)
        if self._moving.lease.era != era:
            remark = "the lease of this proxy has ended since: try again"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if frame.flag & FLAG_ONEWAY:
            return None
        if frame.code != Code.LOCK_BATCH_MQ:
            every = [one for found in answers for one in found]
            failed = next((one for one in every if one.code != ResponseCode.SUCCESS), None)
            return _told(frame, failed)
        last = [found[-1] for found in answers]
        if all(one.code != ResponseCode.SUCCESS for one in last):
            return _told(frame, last[0])
        locked: list[MessageQueue] = []
        for one, found in zip(asked, answers, strict=True):
            locked += _granted(seen(one.broker, found[-1]))  # of what all before it have granted
        return frame.reply(body=LockBatchResult(tuple(locked)).encode())

    async def _lock(self, one: LocksOf, places: tuple[str, ...], found: list[Frame]) -> None:
        """Ask one place after the other, each for what those before it have granted: who is refused
        at the first one must not have it at the second, and keep the other from renewing it."""
        frame = one.frame
        for place in places:
            if found:
                granted = tuple(_granted(found[-1]))
                if not granted:
                    return
                try:
                    asked = LockBatch.decode(one.frame.body)
                except RemoteProtocolError as error:
                    found.append(frame.reply(ResponseCode.SYSTEM_ERROR, remark=str(error)))
                    return
                frame = msgspec.structs.replace(frame, body=replace(asked, mq_set=granted).encode())
            await self._ask(place, frame, found, ASK_S / len(places))

    async def _unlock(self, one: LocksOf, places: tuple[str, ...], found: list[Frame]) -> None:
        for place in places:
            await self._ask(place, one.frame, found, ASK_S / len(places))

    async def _ask(self, place: str, frame: Frame, found: list[Frame], seconds: float) -> None:
        # Without fields: lanemq's brokers would bind the lock to this connection of the proxy.
        asked = request(frame.code, {}, frame.body)
        try:
            address = self._address(place)
            if not address:
                raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, f"broker {place} is not there")
            found.append(await self._client.call(address, asked, seconds))
        except (Refused, RefusedByBroker) as error:
            found.append(frame.reply(error.code, remark=error.remark))
        except LanemqError as error:
            found.append(frame.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=str(error)))


def _told(frame: Frame, failed: Frame | None) -> Frame:
    """Return the answer without locks: refused where a broker has refused it."""
    return frame.reply() if failed is None else frame.reply(failed.code, remark=failed.remark)


def _granted(answer: Frame) -> dict[MessageQueue, None]:
    """Return the queues that a broker has locked for the client."""
    if answer.code != ResponseCode.SUCCESS:
        return {}
    try:
        return dict.fromkeys(LockBatchResult.decode(answer.body).lock_ok_mq_set)
    except RemoteProtocolError:
        return {}  # the client asks again
