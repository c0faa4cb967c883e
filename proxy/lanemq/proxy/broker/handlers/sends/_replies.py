"""Replies to requests: SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325).

A reply names the client that waits for it. It is pushed (326) over the connection of that
client's producers, and also kept in the cluster's reply topic.

Source: RocketMQ 4.9.8, ReplyMessageProcessor.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

from attrs import define

from lanemq.local import get_logger
from lanemq.storage import NewMessage
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode, reply_topic
from lanemq.wire.frame import FLAG_ONEWAY, Frame, request
from lanemq.wire.headers import ReplyMessage, SendMessage, SendMessageResponse
from lanemq.wire.message import Property, decode_properties, encode_properties

from ....acl import Rights, Sender, produces_as, replies_to, sends_to
from ....logical.rules._forwarding import born_host_of
from ....logical.rules._gate import SegmentClosed
from ....logical.rules._mapping import TopicMapping
from ....net._dispatch import Handlers
from ....net._session import PeerTimedOut, Session, SessionClosed
from ....sessions.state._clients import ClientRegistry
from ....sessions.values._results import Stored
from ....sessions.values._rights import RightsOf
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ...state._stats import BrokerStatistics
from ...state._topics import Topics
from ...values._own_properties import answered_properties
from ...values._room import check_length
from ...writing._flushes import Flushes
from ...writing._writer import Writer
from ._send import SenderCheck, sender_checks
from ._send_special import STORED_FLAGS, check_accepts, checked_target, choose_queue

LOGGER = get_logger("lanemq.proxy.broker.replies", by_peers=True)

PUSH_S: Final = 10.0
"""Seconds that the client may take to acknowledge a reply."""
PUSHED_ID: Final = "0"
"""The message id of a reply that was pushed, and is stored nowhere."""


@final
@define(eq=False, kw_only=True, repr=False)
class Replies:
    """The reply handlers of one broker."""

    _address: HostAddress
    _answered: dict[str, str]
    """The fields of answers beside a message's place."""
    _check: SenderCheck | None
    """Checks the sender by the reply's properties, as that of any message; None where everyone may
    send everything."""
    _clients: ClientRegistry[Session]
    _commit: Callable[[], None]
    _commit_all: Callable[[], Awaitable[None]]
    _config: BrokerConfig
    _flushes: Flushes
    _mappings: Mapping[str, TopicMapping]
    _now_ms: Callable[[], int]
    _rights: RightsOf
    _rights_of: Callable[[Sender, str], Rights]
    _statistics: BrokerStatistics
    _store_host: bytes
    _topics: Topics
    _writer: Writer

    def handler(
        self, read: Callable[[Mapping[str, str]], SendMessage]
    ) -> Callable[[Frame, Session], Awaitable[Stored | Frame | None]]:
        """Make the handler of one request code, whose header ``read`` reads."""

        def reply(frame: Frame, session: Session) -> Awaitable[Stored | Frame | None]:
            return self._reply(read(frame.fields), frame, session)

        return reply

    async def _reply(
        self, header: SendMessage, frame: Frame, session: Session
    ) -> Stored | Frame | None:
        """Push the reply, store it, and answer whether it was pushed.

        Raises ``Refused`` where nothing was done with it, as a send does.
        """
        check_length(header.properties or "")
        most = self._config.max_message_size
        if len(frame.body) > most:
            remark = f"a reply of {len(frame.body)} bytes, at most {most} are taken"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        properties = decode_properties(header.properties or "")
        client_id = properties.get(Property.REPLY_TO_CLIENT)
        asker = None if client_id is None else self._asker(client_id)
        self._check_rights(header.topic, asker, self._rights(frame, session))
        if self._check is not None:
            self._check(frame, session)
        check_accepts(self._config, self._now_ms())
        target = checked_target(header, config=self._config, topics=self._topics)
        await self._commit_all()  # a new topic is not in the write of the read that brought this
        queue_id = choose_queue(self._mappings, target, header.queue_id)
        born_host = born_host_of(frame, session.peer)
        problem: str | None
        if client_id is None:
            problem = f"reply message properties[{Property.REPLY_TO_CLIENT}] is null"
        elif asker is None:
            problem = f"push reply message fail, channel of <{client_id}> not found."
            LOGGER.warning(problem)
        else:
            host = HostAddress.unpack(born_host)
            problem = await self._push(asker, header, properties, frame.body, host)
        stored: Stored | None = None
        if self._config.store_reply_message_enable:
            stored = await self._keep(header, frame.body, queue_id, born_host)
        if frame.flag & FLAG_ONEWAY:
            return None
        if problem is not None:
            return frame.reply(ResponseCode.SYSTEM_ERROR, self._answered, remark=problem)
        if stored is not None:
            return stored
        fields = SendMessageResponse(PUSHED_ID, queue_id, 0).to_fields()
        return frame.reply(ResponseCode.SUCCESS, fields | self._answered)

    def _asker(self, client_id: str) -> Session | None:
        """Return the connection of a client that is a producer still, by its rights of now."""
        session = self._clients.producer_session(client_id)
        if session is None:
            return None
        for group, client in self._clients.askers_of(session, client_id):
            if self._rights_of(client.sender, session.peer.host).may(produces_as(group)):
                return session
        return None

    def _check_rights(self, topic: str, asker: Session | None, rights: Rights) -> None:
        """Check that a sender may reply to the client with that connection. Raises ``Refused``."""
        if topic != reply_topic(self._config.broker_cluster_name):
            # Before the handler, every topic that ends like that of replies is let through.
            rights.require(sends_to(topic))
        if asker is not None and rights.are_limited:
            rights.require(*map(replies_to, self._clients.producer_groups_of(asker)))

    async def _push(
        self,
        asker: Session,
        header: SendMessage,
        properties: dict[str, str],
        body: bytes,
        born_host: HostAddress,
    ) -> str | None:
        """Push the reply to the client that it names; returns what went wrong, None for
        nothing."""
        client_id = properties[Property.REPLY_TO_CLIENT]
        now_ms = self._now_ms()
        properties[Property.PUSH_REPLY_TIME] = str(now_ms)
        pushed = ReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=str(born_host),
            store_host=str(self._address),
            store_timestamp=now_ms,
            properties=encode_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        asked = request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed.to_fields(), body=body)
        try:
            answer = await asker.request(asked, PUSH_S)
        except (PeerTimedOut, SessionClosed) as error:
            LOGGER.warning("a reply could not be pushed to %s: %s", client_id, error)
        else:
            if answer.code == ResponseCode.SUCCESS:
                return None
            LOGGER.warning("%s did not take a reply: %s", client_id, answer.remark)
        return f"push reply message to {client_id}fail."

    async def _keep(
        self, header: SendMessage, body: bytes, queue_id: int, born_host: bytes
    ) -> Stored | None:
        """Store the reply as it was sent.

        Returns None where it cannot be stored: the client that waits for it gets it nevertheless.
        """
        message = NewMessage(
            topic=header.topic,
            queue_id=queue_id,
            body=body,
            properties=(header.properties or "").encode(),
            flag=header.flag,
            sys_flag=header.sys_flag & STORED_FLAGS,
            born_timestamp_ms=header.born_timestamp,
            born_host=born_host,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        try:
            put = self._writer.append(message)
            self._commit()
        except (Refused, SegmentClosed) as error:
            LOGGER.warning("a reply cannot be stored: %s", error)
            return None
        self._statistics.put(header.topic, 1, put.size_bytes)
        if self._flushes.are_awaited:
            await self._flushes.reached(put.end)
        return Stored((put.log_position,), queue_id, put.queue_offset, put.end)


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register replies, in both forms of the header."""
    replies = Replies(
        address=broker.address,
        answered=answered_properties(broker.config),
        check=None
        if broker.access_control is None
        else sender_checks(broker.rights, broker.light_queues.check_number),
        clients=broker.clients,
        commit=broker.commit,
        commit_all=broker.commit_all,
        config=broker.config,
        flushes=Flushes(broker.store),
        now_ms=broker.now_ms,
        rights=broker.rights,
        rights_of=broker.rights_of,
        statistics=broker.statistics,
        store_host=broker.store_host,
        topics=broker.topics,
        writer=broker.writer,
        mappings=broker.logical.mappings,
    )
    handlers.add(RequestCode.SEND_REPLY_MESSAGE, replies.handler(SendMessage.from_fields))
    handlers.add(RequestCode.SEND_REPLY_MESSAGE_V2, replies.handler(SendMessage.from_letters))
