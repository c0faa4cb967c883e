"""A queue of a topic at a broker of the upstream cluster, asked over the network.

Source: RocketMQ 4.9.8 and 5.3.3, SendMessageProcessor, PullMessageProcessor,
AdminBrokerProcessor.getMaxOffset.
"""

import time
from typing import Final, final

from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient
from lanemq.sdk.admin import AdminClient
from lanemq.wire import ProtocolError, PullSysFlag, RequestCode, ResponseCode
from lanemq.wire.bodies import MASTER_ID, ExpressionType
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    GetMaxOffset,
    Header,
    OffsetResponse,
    PullMessage,
    PullMessageResponse,
    SendMessageV2,
)
from lanemq.wire.message import decode_messages

from ._queue import NoAccount, NoSuchTopic, NotYet, Pulled, Stored, TooLong

GROUP: Final = "CID_RMQ_SYS_LANEMQ_KEYS"
"""The group of the pulls. Brokers know groups with this prefix without having been told of them,
also if they create none by themselves."""
PRODUCER_GROUP: Final = "LANEMQ_KEYS"
PULLED_MAX: Final = 32
CALL_S: Final = 3.0
HELD_LONGER_S: Final = 5.0
"""Seconds for which a broker may hold a pull longer than it was asked to: it looks so often at what
it holds (PullRequestHoldService)."""
FOUND: Final = int(ResponseCode.SUCCESS)
PULL_CODES: Final = frozenset(
    {
        FOUND,
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    }
)
_OF_4X: Final = "AclException"
NO_BODY: Final = b"\xc1"
"""The body of a record that has none, since brokers take no message without: a byte with which no
operation begins, as no value of msgpack and no text does."""
TAKEN: Final = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.FLUSH_DISK_TIMEOUT),
        int(ResponseCode.SLAVE_NOT_AVAILABLE),
        int(ResponseCode.FLUSH_SLAVE_TIMEOUT),
    }
)
"""Answers to a record that is in the log of the master. Whether it stays there shows when it is
pulled: a controller's brokers give out only what their replicas have."""


def refusal(error: Exception) -> NotYet:
    """Return why a broker refused a request of the proxy itself."""
    if isinstance(error, RefusedByBroker) and asks_for_account(error.code, error.remark):
        return NoAccount(
            f"{error}: the cluster has accounts, and a proxy has none. Start proxies without "
            "--logical and --keys there: requests of clients pass as they are signed"
        )
    if isinstance(error, RefusedByBroker) and error.code == ResponseCode.TOPIC_NOT_EXIST:
        return NoSuchTopic(str(error))
    return NotYet(str(error))


def asks_for_account(code: int, remark: str | None) -> bool:
    """Return whether a broker with accounts of 4.x or 5.x refused a request because of them."""
    text = remark or ""
    # What may not be read or written, whoever asks, is forbidden.
    return _OF_4X in text or (code == ResponseCode.NO_PERMISSION and "forbidden" not in text)


@final
class UpstreamBroker:
    """The master of one name, at the address that name servers give for it now."""

    def __init__(
        self, client: RemotingClient, admin: AdminClient, name: str, address: str | None = None
    ) -> None:
        """``address`` is where it was found just now."""
        self._client = client
        self._admin = admin
        self.name = name
        self._address = address

    async def ask(
        self,
        code: RequestCode,
        header: Header,
        body: bytes = b"",
        *,
        accept: frozenset[int],
        wait_s: float = 0.0,
    ) -> Frame:
        """Ask the master. Raises ``NotYet``, and ``RefusedByBroker`` for any other code."""
        address = self._address or await self._find()
        frame = request(code, header.to_fields(), body=body)
        try:
            return await self._client.call(address, frame, CALL_S + wait_s, accept=accept)
        except RefusedByBroker:
            self._address = None  # it may be a slave by now
            raise
        except LanemqError as error:
            self._address = None
            raise NotYet(str(error)) from error

    async def _find(self) -> str:
        try:
            found = (await self._admin.cluster()).broker_addr_table.get(self.name)
        except (LanemqError, ProtocolError) as error:
            raise NotYet(str(error)) from error
        address = None if found is None else found.broker_addrs.get(MASTER_ID)
        if address is None:
            raise NotYet(f"no master of broker {self.name} is registered now")
        self._address = address
        return address


@final
class UpstreamQueue:
    """A queue as the log of a partition; see ``LogQueue``."""

    def __init__(self, broker: UpstreamBroker, topic: str, queue_id: int) -> None:
        self._broker = broker
        self._topic = topic
        self._queue_id = queue_id

    async def pull(self, offset: int, *, wait_s: float) -> Pulled:
        header = PullMessage(
            consumer_group=GROUP,
            topic=self._topic,
            queue_id=self._queue_id,
            queue_offset=offset,
            max_msg_nums=PULLED_MAX,
            sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if wait_s else 0),
            commit_offset=0,
            suspend_timeout_millis=round(wait_s * 1000),
            sub_version=0,
            subscription="*",
            expression_type=ExpressionType.TAG.value,
        )
        code = RequestCode.PULL_MESSAGE
        longer_s = wait_s + HELD_LONGER_S if wait_s else 0.0
        frame = await self._asked(code, header, accept=PULL_CODES, wait_s=longer_s)
        try:
            answer = PullMessageResponse.from_fields(frame.fields)
            found = decode_messages(frame.body, asked=PULLED_MAX) if frame.code == FOUND else []
        except ProtocolError as error:
            raise NotYet(f"an answer of broker {self._broker.name} is damaged: {error}") from error
        records = [
            Stored(
                one.queue_offset,
                one.store_timestamp_ms,
                b"" if one.body == NO_BODY else one.body,
                one.properties_data,
            )
            for one in found
            if one.queue_offset >= offset
        ]
        return Pulled(records, answer.min_offset, answer.max_offset)

    async def append(self, body: bytes, properties: bytes) -> None:
        header = SendMessageV2(
            producer_group=PRODUCER_GROUP,
            topic=self._topic,
            default_topic=self._topic,  # a broker that has no such topic creates none by itself
            default_topic_queue_nums=1,
            queue_id=self._queue_id,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=properties.decode(),
        )
        try:
            await self._broker.ask(
                RequestCode.SEND_MESSAGE_V2, header, body or NO_BODY, accept=TAKEN
            )
        except RefusedByBroker as error:
            if error.code == ResponseCode.MESSAGE_ILLEGAL:
                raise TooLong(str(error)) from error
            raise refusal(error) from error

    async def end(self) -> int:
        header = GetMaxOffset(self._topic, self._queue_id)
        accept = frozenset({int(ResponseCode.SUCCESS)})
        frame = await self._asked(RequestCode.GET_MAX_OFFSET, header, accept=accept)
        try:
            return OffsetResponse.from_fields(frame.fields).offset
        except ProtocolError as error:
            raise NotYet(f"an answer of broker {self._broker.name} is damaged: {error}") from error

    async def _asked(
        self, code: RequestCode, header: Header, *, accept: frozenset[int], wait_s: float = 0.0
    ) -> Frame:
        try:
            return await self._broker.ask(code, header, accept=accept, wait_s=wait_s)
        except RefusedByBroker as error:
            raise refusal(error) from error
