"""Messages that were left behind, as they are read and sent again."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient
from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode, SysFlag
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import QueryMessage
from lanemq.wire.message import Property, StoredMessage, decode_messages, encode_properties

from ..order import Part

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

ASK_S: Final = 3.0
PULLED: Final = 32
PROPERTY: Final = "LANEMQ_LEFT_BEHIND"
GROUP: Final = "LANEMQ_PROXY"
READER: Final = "CID_RMQ_SYS_LANEMQ_MOVES"
"""A group that brokers count among their own, which need no settings."""
_DROPPED: Final = frozenset(
    {
        "DELAY",
        "TRAN_MSG",
        "REAL_TOPIC",
        "REAL_QID",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "TIMER_ROLL_TIMES",
        "TIMER_OUT_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "__STARTDELIVERTIME",
        "PGROUP",
        PROPERTY,
    }
)
"""Properties by which a broker would keep the message back once more."""
AGAIN_MS: Final = 600_000
"""Milliseconds between the times at which brokers have stored a message, and its client the same
once more after it had no answer: clocks of brokers may differ by some of it. What has its key and
is further away is another message: applications send one object of a client's again and again."""
FOUND_MAX: Final = 32
SILENT_S: Final = 30.0
"""Seconds for which a broker of a middle part that has not answered is not asked again."""
STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
PULLED_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def mark_of(part: Part, offset: int) -> str:
    """Return the mark by which a message that was sent again is known."""
    return f"{part.broker}/{part.queue_id}/{offset}"


def sent_again(record: StoredMessage, part: Part, target: Part) -> Frame:
    """Return the send of a message that was left behind at a part, to another one."""
    properties = {name: value for name, value in record.properties.items() if name not in _DROPPED}
    properties[PROPERTY] = mark_of(part, record.queue_offset)
    flag = record.sys_flag & ~(int(SysFlag.TRANSACTION_MASK) | int(SysFlag.HOSTS_V6_MASK))
    fields = {
        "a": GROUP,
        "b": record.topic,
        "c": record.topic,  # nothing is to be created where the topic is gone
        "d": "4",
        "e": str(target.queue_id),
        "f": str(flag),
        "g": str(record.born_timestamp_ms),
        "h": str(record.flag),
        "i": encode_properties(properties).decode(),
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "false",
    }
    frame = request(RequestCode.SEND_MESSAGE_V2, fields)
    return replace(frame, body=record.body)


async def pull(
    client: RemotingClient, address: str, topic: str, queue_id: int, offset: int
) -> Frame:
    """Return the answer of a broker to a pull. Raises ``LanemqError``."""
    fields = {
        "consumerGroup": READER,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(PULLED),
        "sysFlag": "4",  # the subscription comes with it
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return await client.call(
        address, request(RequestCode.PULL_MESSAGE, fields), ASK_S, accept=PULLED_CODES
    )


@final
class SentAlready:
    """Asks brokers for messages that are at a queue's later parts already."""

    def __init__(self, client: RemotingClient, address: Callable[[str], str | None]) -> None:
        self._client = client
        self._address = address
        self._silent_s: dict[str, float] = {}
        """Brokers of middle parts that have not answered, each with when that was."""

    async def has(self, record: StoredMessage, parts: Sequence[Part]) -> bool:
        """Return whether one of a queue's later parts has a message already, since its client,
        which had no answer, has sent it again: the same unique key with the same body, at about
        the same time.

        A message that has waited at its broker for its time, or for its transaction, is none of
        which that is known: applications send what they have read once more to have it later, and
        the copies have one key. Brokers find messages by their key index. One that has only a
        middle part, and does not say what it has, has none: a message more is better than one that
        waits for a broker to which it does not go.

        Raises ``LanemqError``, ``RemoteProtocolError``.
        """
        key = record.properties.get(Property.UNIQ_KEY)
        has_waited = Property.REAL_TOPIC in record.properties
        if not key or has_waited or record.sys_flag & int(SysFlag.TRANSACTION_MASK):
            return False
        open_at = parts[-1].broker
        for broker in sorted({part.broker for part in parts}):
            to = self._address(broker)
            if to is None or (broker != open_at and self._is_silent(broker)):
                continue  # nobody reads there, or it does not say
            ends = {part.queue_id: part.read_end for part in parts if part.broker == broker}
            try:
                if await self._is_at(to, record, key, ends):
                    return True
            except (LanemqError, RemoteProtocolError) as error:
                if broker == open_at:
                    raise
                LOGGER.info("broker %s does not say what was sent again to it: %s", broker, error)
                if not isinstance(error, RefusedByBroker):
                    self._silent_s[broker] = trio.current_time()
        return False

    def _is_silent(self, broker: str) -> bool:
        return trio.current_time() - self._silent_s.get(broker, -math.inf) < SILENT_S

    async def _is_at(
        self, to: str, record: StoredMessage, key: str, ends: Mapping[int, int]
    ) -> bool:
        """Ask one broker, of whose queues some have parts that end somewhere."""
        at_ms = record.store_timestamp_ms
        begin_ms, end_ms = max(0, at_ms - AGAIN_MS), at_ms + AGAIN_MS
        asked = QueryMessage(record.topic, key, FOUND_MAX, begin_ms, end_ms, unique_key_query=True)
        answer = await self._client.call(
            to,
            request(RequestCode.QUERY_MESSAGE, asked.to_fields()),
            ASK_S,
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        return answer.code == ResponseCode.SUCCESS and any(
            (found.topic, found.properties.get(Property.UNIQ_KEY)) == (record.topic, key)
            and found.body == record.body
            and _is_before(found.queue_offset, ends.get(found.queue_id, 0))
            for found in decode_messages(answer.body, asked=FOUND_MAX)
        )


def _is_before(offset: int, end: int) -> bool:
    return end < 0 or offset < end
