"""A producer group that is added to heartbeats: a broker lists its clients. Pure."""

from typing import Final

import msgspec

from lanemq.wire import RemoteProtocolError, fastjson

_PRODUCERS: Final = "producerDataSet"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_GROUPS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


def with_producer_group(body: bytes, group: str) -> bytes:
    """Return the body of a heartbeat with one more producer group; all else stays as it is.

    What is no heartbeat stays as it is, too: its broker says what is wrong with it.
    """
    try:
        fastjson.check_numbers(body)
        members = _MEMBERS.decode(body)
        groups = _GROUPS.decode(members.get(_PRODUCERS, b"[]")) or []
    except (msgspec.DecodeError, RemoteProtocolError, UnicodeDecodeError):
        return body
    added = msgspec.Raw(msgspec.json.encode({"groupName": group}))
    members[_PRODUCERS] = msgspec.Raw(msgspec.json.encode([*groups, added]))
    return msgspec.json.encode(members)
