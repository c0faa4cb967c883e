"""The bound for names that peers give and tables keep: of groups, topics, clients."""

from typing import Final

from lanemq.wire import Refused, ResponseCode

NAME_BYTES_MAX: Final = 255
"""Most bytes of a name in UTF-8. Groups have 255 characters at most, and topics 127 behind a
prefix: RocketMQ 4.9.8, Validators, TopicValidator. The client ids of all clients are shorter."""


def name_bytes(name: str) -> int:
    """Return the bytes of a name in UTF-8; a lone surrogate, which has no code there, counts
    three."""
    return len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))


def is_name_too_long(name: str) -> bool:
    """Return whether a name has more bytes than may be kept."""
    return len(name) > NAME_BYTES_MAX or name_bytes(name) > NAME_BYTES_MAX


def check_name(kind: str, name: str) -> None:
    """Raise ``Refused`` (SYSTEM_ERROR) for a name that is too long to be kept."""
    if is_name_too_long(name):
        remark = (
            f"the name of a {kind} has {name_bytes(name)} bytes, at most {NAME_BYTES_MAX} are taken"
        )
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
