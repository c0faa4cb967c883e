"""The binary header of a remoting frame (serialize type 1).

``BINARY_HEADER`` is the layout. The functions below read and write the same bytes with
``struct.Struct``s derived from it; a property test holds both together.
Integers are signed and big-endian; every length counts bytes, not characters.
Source: RocketMQ 4.9.8, RocketMQSerializable.
"""

import struct
from typing import Final

import construct as cs

from .._codes import language_code, language_name
from .._errors import LocalProtocolError, RemoteProtocolError
from .._layout import fixed_prefix, fixed_struct
from ._command import MAX_FIELDS, Frame, SerializeType

SHORT_TEXT = cs.PascalString(cs.Int16sb, "utf8")
LONG_TEXT = cs.PascalString(cs.Int32sb, "utf8")

# GreedyRange stops quietly at the first field it cannot read, so a map cut short
# would pass for a smaller one. Terminated makes the leftover bytes an error.
FIELDS = cs.GreedyRange(cs.Struct("key" / SHORT_TEXT, "value" / LONG_TEXT))

BINARY_HEADER = cs.Struct(
    "code" / cs.Int16sb,
    "language" / cs.Int8ub,
    "version" / cs.Int16sb,
    "opaque" / cs.Int32sb,  # request id; the response echoes it
    "flag" / cs.Int32sb,  # bit 0: response, bit 1: one-way
    "remark" / LONG_TEXT,  # length 0 stands for "no remark"
    "fields" / cs.Prefixed(cs.Int32sb, cs.FocusedSeq("map", "map" / FIELDS, cs.Terminated)),
)

_FIXED = fixed_prefix(BINARY_HEADER).struct
_SHORT = fixed_struct(cs.Struct("length" / cs.Int16sb)).struct
_LONG = fixed_struct(cs.Struct("length" / cs.Int32sb)).struct
_ROCKETMQ: Final = SerializeType.ROCKETMQ


def encode_binary_header(frame: Frame) -> bytes:
    """Write the header of ``frame``; its ``extra`` has no place here and is left out.

    Raises ``LocalProtocolError`` for what does not fit: a code or version beyond 16 bits, an
    opaque or flag beyond 32, a key of 32768 bytes, a language without a number.
    """
    if not -0x8000 <= frame.code <= 0x7FFF:
        raise LocalProtocolError(
            f"code {frame.code} does not fit the 16 bits of a binary header; use a JSON header"
        )
    entries = bytearray()
    try:
        for key, value in frame.fields.items():
            name, data = key.encode(), value.encode()
            entries += _SHORT.pack(len(name))
            entries += name
            entries += _LONG.pack(len(data))
            entries += data
        remark = b"" if frame.remark is None else frame.remark.encode()
        fixed = _FIXED.pack(
            frame.code, language_code(frame.language), frame.version, frame.opaque, frame.flag
        )
        return b"".join((fixed, _LONG.pack(len(remark)), remark, _LONG.pack(len(entries)), entries))
    except (ValueError, AttributeError, struct.error) as error:
        raise LocalProtocolError(f"no binary header for code {frame.code}: {error}") from error


def decode_binary_header(header: bytes, body: bytes) -> Frame:
    """Read ``header``; of a key that comes twice, as Java may write it, the last value counts.

    Raises ``RemoteProtocolError``, naming the field and the byte of the header.
    """
    if len(header) < _FIXED.size + 2 * _LONG.size:
        raise RemoteProtocolError(
            f"binary header: {len(header)} bytes, the fixed part alone has "
            f"{_FIXED.size + 2 * _LONG.size}"
        )
    code, language, version, opaque, flag = _FIXED.unpack_from(header)
    remark, at = _text(header, _FIXED.size, _LONG, "remark")
    if len(header) - at < _LONG.size:
        raise RemoteProtocolError(f"binary header: cut off in the length of fields at byte {at}")
    (size_bytes,) = _LONG.unpack_from(header, at)
    at += _LONG.size
    if size_bytes != len(header) - at:
        raise RemoteProtocolError(
            f"binary header: fields at byte {at} claim {size_bytes} bytes, "
            f"{len(header) - at} are left"
        )
    return Frame(
        code,
        opaque,
        flag,
        _fields(header, at),
        body,
        remark or None,
        language_name(language),
        version,
        _ROCKETMQ,
    )


def _fields(header: bytes, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    end = len(header)
    try:
        for _ in range(MAX_FIELDS):
            if at >= end:
                return fields
            start = at + 2
            middle = start + _SHORT.unpack_from(header, at)[0]
            value_start = middle + 4
            at = value_start + _LONG.unpack_from(header, middle)[0]
            if middle < start or at < value_start or at > end:
                break
            fields[header[start:middle].decode()] = header[value_start:at].decode()
        else:
            if at < end:
                raise RemoteProtocolError(
                    f"binary header: more than {MAX_FIELDS} fields, no more are read"
                )
            return fields
    except (struct.error, UnicodeDecodeError):
        pass
    raise _blame(header, end)


def _blame(header: bytes, end: int) -> RemoteProtocolError:
    """Read the fields once more, with an eye on each length, and return the error found."""
    at = _FIXED.size
    try:
        _, at = _text(header, at, _LONG, "remark")
        at += _LONG.size
        while at < end:
            key, at = _text(header, at, _SHORT, "a key")
            _, at = _text(header, at, _LONG, f"the value of {key!r}")
    except RemoteProtocolError as error:
        return error
    raise AssertionError("the two readers of a binary header disagree")


def _text(header: bytes, at: int, length: struct.Struct, name: str) -> tuple[str, int]:
    start = at + length.size
    if start > len(header):
        raise RemoteProtocolError(f"binary header: cut off in the length of {name} at byte {at}")
    (size_bytes,) = length.unpack_from(header, at)
    end = start + size_bytes
    if size_bytes < 0 or end > len(header):
        raise RemoteProtocolError(
            f"binary header: {name} at byte {at} claims {size_bytes} bytes, "
            f"{len(header) - start} are left"
        )
    try:
        return header[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(
            f"binary header: {name} is not UTF-8 at byte {start + error.start}"
        ) from error
