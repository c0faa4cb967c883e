"""INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): the offsets that members of a group hold in memory.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.getConsumerStatus, Broker2Client.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.wire import (
    ProtocolError,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    fastjson,
)
from lanemq.wire.bodies import GetConsumerStatusBody
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetConsumerStatus

from ...net._dispatch import Handlers, typed
from ...net._long_answer import ANSWER_BYTES_MAX, LongAnswer
from ...net._session import PeerTimedOut, Session, SessionClosed
from ...net._turns import LONG_PARTS, PART_BYTES, make_beside
from ...sessions.state._clients import ClientRegistry
from ...sessions.state._members import Client
from ..context._context import BrokerContext

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)

STATUS_TIMEOUT_S: Final = 5.0
"""Seconds in which members can answer: the operator gets what there is then."""
MEMBERS_AT_ONCE: Final = 32
"""Most members that are asked at once for one operator's question."""
ASKED_BYTES: Final = 4 << 10
"""Estimated bytes that a member takes while it is asked."""
STATUS_BYTES_MAX: Final = 1 << 20
"""The longest answer of a member that is read; it has some hundred bytes for each queue of a
topic."""
READ_FACTOR: Final = 4
"""Estimated bytes that each byte of such an answer takes while it is read."""


@final
@define(eq=False, kw_only=True, repr=False)
class MemberStatus:
    """The question for the offsets that members hold."""

    _clients: ClientRegistry[Session]

    async def answer(self, header: GetConsumerStatus, frame: Frame, session: Session) -> Frame:
        """Answer the consumed offsets that the members of a group, or one of them, hold in
        memory.

        A connection has one such question at a time. Raises ``Refused``, also where the answers
        are more than a frame holds.
        """
        async with LongAnswer.begin(session, frame.code) as answer:
            group = self._clients.consumer_group(header.group)
            if group is None:
                remark = f"No Any Consumer online in the consumer group: [{header.group}]"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
            wanted = [
                client
                for client in group.clients.values()
                if not header.client_addr or header.client_addr == client.client_id
            ]
            asked = request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                GetConsumerStatus(topic=header.topic, group=header.group).to_fields(),
            )
            found = _Found(session, asked)
            try:
                await found.gather(wanted)
                members = [
                    await answer.members({client_id: text})
                    for client_id, text in found.texts.items()
                ]
            finally:
                session.account.add(-found.kept_bytes)
            table = await answer.object(members)
            body = await answer.body({"consumerTable": table, "messageQueueTable": {}})
        return frame.reply(body=body)


@final
class _Found:
    """The answers of members to one question, charged to who asked."""

    def __init__(self, session: Session, asked: Frame) -> None:
        self._session = session
        self._asked = asked
        self._reading = trio.Lock()
        self._answered = 0
        self.texts: dict[str, fastjson.Written] = {}
        """Client id -> its offsets by queue, written already."""
        self.kept_bytes = 0

    async def gather(self, members: list[Client[Session]]) -> None:
        """Ask the members, some at once; stops when the answers are too many to be sent."""
        left, tasks = iter(members), min(len(members), MEMBERS_AT_ONCE)
        self._session.account.add(tasks * ASKED_BYTES)
        try:
            with trio.move_on_after(STATUS_TIMEOUT_S):
                async with trio.open_nursery() as nursery:
                    for _ in range(tasks):
                        nursery.start_soon(self._ask_in_turn, left)
        finally:
            self._session.account.add(-tasks * ASKED_BYTES)
        if self._answered < len(members):
            silent = len(members) - self._answered
            LOGGER.warning("no status from %d of %d members", silent, len(members))

    async def _ask_in_turn(self, left: Iterator[Client[Session]]) -> None:
        for client in left:
            try:
                answer = await client.session.request(self._asked, STATUS_TIMEOUT_S)
                self._answered += 1
                if answer.code == ResponseCode.SUCCESS and answer.body:
                    await self._take(client.client_id, answer.body)
            except (PeerTimedOut, SessionClosed, ProtocolError) as error:
                LOGGER.warning("no status from %s: %s", client.client_id, error)
            if self.kept_bytes > ANSWER_BYTES_MAX:
                return

    async def _take(self, client_id: str, body: bytes) -> None:
        """Read an answer beside the loop, one at a time. Raises ``RemoteProtocolError``."""
        size_bytes = len(body)
        if size_bytes > STATUS_BYTES_MAX:
            raise RemoteProtocolError(
                f"a body of {size_bytes} bytes, at most {STATUS_BYTES_MAX} are read"
            )
        account = self._session.account
        account.add(size_bytes)
        try:
            async with self._reading:
                parts = max(LONG_PARTS, size_bytes * READ_FACTOR // PART_BYTES)
                text = await make_beside(self._session, partial(_rewritten, body), parts)
        finally:
            account.add(-size_bytes)
        self.kept_bytes += len(text)
        account.add(len(text))
        self.texts[client_id] = fastjson.Written(text)


def _rewritten(body: bytes) -> bytes:
    """Read a member's answer, and write its offsets as the broker's answer has them."""
    return fastjson.dumps(dict(GetConsumerStatusBody.decode(body).message_queue_table))


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register request 223."""
    status = MemberStatus(clients=broker.clients)
    handlers.add(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        typed(GetConsumerStatus, status.answer),
    )
