"""The harness's messages as the SDK's, and the SDK's as the harness's."""

from base64 import b64decode
from typing import Any

from msgspec.structs import replace

from lanemq.sdk import (
    ClientOptions,
    Expression,
    Message,
    ReceivedMessage,
    RemotingOptions,
    SendResult,
    SendStatus,
    Sql,
)
from lanemq.wire.message import StoredMessage

from ..clients._messages import Outgoing, Received, Sent

SEND_S = 15.0  # many clients share a small machine
CALL_S = 15.0
JAVA_STATUS = {
    SendStatus.OK: "SEND_OK",
    SendStatus.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    SendStatus.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    SendStatus.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
Arguments = dict[str, Any]


def client_options(arguments: Arguments) -> ClientOptions:
    """Options of a client that notices changes soon."""
    return ClientOptions(
        instance=arguments["name"],
        heartbeat_interval_s=2.0,
        route_refresh_s=1.0,
        call_timeout_s=CALL_S,
        remoting=RemotingOptions(connect_timeout_s=CALL_S),
    )


def expression(arguments: Arguments) -> Expression:
    """Return the expression a consumer subscribes with: SQL, where the command has it, or tags."""
    return Sql(arguments["sql"]) if "sql" in arguments else str(arguments["tags"])


def outgoing(described: Arguments) -> Message:
    """Return a message of the harness, as the SDK sends it."""
    out = Outgoing(**{**described, "body": b64decode(described["body"])})
    return Message(
        topic=out.topic,
        body=out.body,
        tags=out.tags or "",
        keys=tuple((out.keys or "").split()),
        properties=out.properties,
        flag=out.flag,
        delay_level=out.delay_level,
    )


def sent(result: SendResult) -> Sent:
    """Return the result of a send, as the SDK read the answer."""
    return Sent(
        status=JAVA_STATUS[result.status],
        message_id=result.message_id,
        offset_id=result.offset_id,
        queue_id=result.queue.queue_id,
        queue_offset=result.queue_offset,
        broker_name=result.queue.broker_name,
        origin_broker=None if result.origin is None else result.origin.broker_name,
        origin_queue_id=None if result.origin is None else result.origin.queue_id,
    )


def received(stored: StoredMessage, topic: str | None = None) -> Received:
    """Return a message as its broker stores it; ``topic`` in place of the one stored."""
    properties = dict(stored.properties)
    return Received(
        topic=topic or stored.topic,
        body=stored.decompressed_body(),
        flag=stored.flag,
        properties=properties,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        reconsume_times=stored.reconsume_times,
        message_id=properties.get("UNIQ_KEY") or stored.offset_id,
        offset_id=stored.offset_id,
        born_timestamp_ms=stored.born_timestamp_ms,
        store_timestamp_ms=stored.store_timestamp_ms,
        tags=properties.get("TAGS"),
        keys=properties.get("KEYS"),
    )


def delivered(message: ReceivedMessage) -> Received:
    """Return a message as a consumer got it: of a logical queue, if it was read from one."""
    queue = message.queue
    return replace(
        received(message.stored, message.topic),
        queue_id=queue.queue_id,
        queue_offset=message.queue_offset,
        broker_name=queue.broker_name,
    )
