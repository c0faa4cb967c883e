"""Showing one message: its fields, its body in a file, and who has consumed it.

Source: RocketMQ 4.9.8, QueryMsgByIdSubCommand, QueryMsgByUniqueKeySubCommand.
"""

import base64

from lanemq.local import user_directory, write_file
from lanemq.wire import RemoteProtocolError
from lanemq.wire.message import StoredMessage

from ..._errors import LanemqError
from .._client import AdminClient
from .._tracks import MessageTrack, tracks_of
from ..requests._messages import message_id
from .command._command import Output, fail
from .command._text import mapping, moment

BODIES = "msgbodys"
"""The folder for bodies of messages in the user's directory."""


async def show(
    admin: AdminClient, out: Output, message: StoredMessage, *, with_id: bool, index: int = 0
) -> dict[str, object]:
    """Write ``message`` and return its JSON form; ``with_id`` puts its offset id first."""
    body = body_of(message)
    tracks = await _tracks(admin, message)
    if not out.json:
        rows = [("OffsetID:", message.offset_id)] if with_id else []
        rows += [
            ("Topic:", message.topic),
            ("Tags:", f"[{message.tags or 'null'}]"),
            ("Keys:", f"[{' '.join(message.keys) or 'null'}]"),
            ("Queue ID:", str(message.queue_id)),
            ("Queue Offset:", str(message.queue_offset)),
            ("CommitLog Offset:", str(message.log_position)),
            ("Reconsume Times:", str(message.reconsume_times)),
            ("Born Timestamp:", moment(message.born_timestamp_ms)),
            ("Store Timestamp:", moment(message.store_timestamp_ms)),
            ("Born Host:", str(message.born_host)),
            ("Store Host:", str(message.store_host)),
            ("System Flag:", str(message.sys_flag)),
            ("Properties:", mapping(message.properties)),
            ("Message Body Path:", _write_body(message, body, index)),
        ]
        for label, value in rows:
            out.line(f"{label:<20} {value}")
        out.line()
        out.line()
        for track in tracks:
            out.line(
                f"MessageTrack [consumerGroup={track.group}, trackType={track.type.value}, "
                f"exceptionDesc={track.reason or 'null'}]"
            )
        if not tracks:
            out.line("WARN: No Consumer")
    return message_value(message, body) | {
        "tracks": [
            {"consumerGroup": track.group, "trackType": track.type.value, "reason": track.reason}
            for track in tracks
        ]
    }


async def _tracks(admin: AdminClient, message: StoredMessage) -> list[MessageTrack]:
    try:
        return await tracks_of(admin, message)
    except LanemqError:
        return []  # its topic is gone; the message is still worth showing


def body_of(message: StoredMessage) -> bytes:
    """Return the body as the producer gave it; one that cannot be opened, as it is stored."""
    try:
        return message.decompressed_body()
    except RemoteProtocolError:
        return message.body


def message_value(message: StoredMessage, body: bytes) -> dict[str, object]:
    """Return the JSON form of a message: its body as text, or in base64 where it is not text."""
    value: dict[str, object] = {
        "messageId": message_id(message),
        "offsetId": message.offset_id,
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.log_position,
        "storeSize": message.size_bytes,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "properties": message.properties,
    }
    try:
        value["body"] = body.decode()
    except UnicodeDecodeError:
        value["bodyBase64"] = base64.b64encode(body).decode()
    return value


def _write_body(message: StoredMessage, body: bytes, index: int) -> str:
    # Not the unique key, a property in which the sender may write anything.
    name = f"{message.offset_id}_{index}" if index else message.offset_id
    try:
        path = user_directory(BODIES) / name
        write_file(path, body)
    except OSError as error:
        where = error.filename or name
        fail(f"cannot write the body to {where}: {error.strerror}; --json prints it instead")
    return str(path)
