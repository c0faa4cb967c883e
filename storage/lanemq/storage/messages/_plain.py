"""The content of a record that is plainly whole, checked and taken out in one pass."""

from struct import Struct
from typing import Final, TypeAlias
from zlib import crc32

from lanemq.wire.message import MAGIC_V1

from ..log._records import CRC_MASK, HOSTS_V6, QUEUE_OFFSET_MAX, RECORD_BYTES_MIN

Content: TypeAlias = tuple[int, bytes, bytes]
"""The store time, body and property string of a record."""
_HEAD: Final = Struct(">iii8xqqi16xq20xi").unpack_from
"""Reads the fields of the head that are checked: size, magic number, checksum, queue offset,
position, flags of the system, store time, size of the body."""
_PROPERTIES_BYTES: Final = Struct(">h").unpack_from
_TOPIC_BYTES_MAX: Final = 127  # the length is one byte, signed


def plain_content(data: bytes, at: int, position: int, size_bytes: int) -> Content | None:
    """Return the content of the record at ``data[at]``, which is at ``position`` of the log.

    It is checked as ``check_record`` does. None where it is not whole, and for the forms that are
    rare: addresses of IP version 6, long topics, and those with other characters than ASCII's.
    """
    end = at + size_bytes
    if size_bytes < RECORD_BYTES_MIN or at < 0 or end > len(data):
        return None
    size, magic, crc, queue_offset, place, sys_flag, time_ms, body_bytes = _HEAD(data, at)
    body_at = at + RECORD_BYTES_MIN
    body_end = body_at + body_bytes
    if (
        size != size_bytes
        or place != position
        or magic != MAGIC_V1
        or sys_flag & HOSTS_V6
        or not body_at <= body_end < end
        or not 0 <= queue_offset <= QUEUE_OFFSET_MAX
    ):
        return None
    topic_end = body_end + 1 + data[body_end]
    properties_at = topic_end + 2
    if topic_end > body_end + 1 + _TOPIC_BYTES_MAX or properties_at > end:
        return None
    (properties_bytes,) = _PROPERTIES_BYTES(data, topic_end)
    if properties_bytes != end - properties_at and (properties_bytes > 0 or properties_at != end):
        return None
    body = data[body_at:body_end]
    if body and crc32(body) & CRC_MASK != crc:
        return None
    if not data[body_end + 1 : topic_end].isascii():
        return None
    return time_ms, body, data[properties_at:end]
