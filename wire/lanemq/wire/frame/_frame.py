"""A remoting frame: length, header, body.

``FRAME`` is the layout; the functions below read and write the same bytes faster.
Source: RocketMQ 4.9.8, RemotingCommand, NettyDecoder.
"""

from typing import Final

import construct as cs

from .._errors import LocalProtocolError, RemoteProtocolError
from .._layout import fixed_struct
from .._versions import Version
from ._binary_header import decode_binary_header, encode_binary_header
from ._command import Frame
from ._json_header import INT32_MAX, INT32_MIN, decode_json_header, encode_json_header

FRAME = cs.Prefixed(
    cs.Int32sb,
    cs.Struct(
        "serialize" / cs.Int8ub,  # 0: JSON header, 1: binary header
        "header" / cs.Prefixed(cs.Int24ub, cs.GreedyBytes),
        "body" / cs.GreedyBytes,
    ),
)

# struct has no 24-bit integer: the header word is read whole, the type in its top byte.
HEAD = cs.Struct(
    "length" / cs.Int32sb,  # does not count itself
    "header_word" / cs.Int32ub,
)

MAX_FRAME_BYTES: Final = 16 << 20
"""The longest frame, its length word included, that a peer since 4.0 takes."""

LEGACY_MAX_FRAME_BYTES: Final = 8 << 20
"""The longest frame that a 3.2.6 client takes; it closes the connection at a longer one."""

MAX_HEADER_BYTES: Final = 1 << 20
"""The longest header we read. Those of requests stay below 200 KiB: property strings have 32,767
bytes at most, and JSON makes at most six of one. The answer to a batch has the message ids."""

SPLIT_FRAMES_MAX: Final = 256
"""Most frames that are cut at once: a caller with other work looks at the clock in between."""

_LENGTH = fixed_struct(cs.Struct("length" / cs.Int32sb)).struct
_HEAD = fixed_struct(HEAD).struct
_HEADER_WORD = fixed_struct(cs.Struct("header_word" / cs.Int32ub)).struct
_HEADER_LENGTH_MASK: Final = (1 << 24) - 1
DECODERS: Final = (decode_json_header, decode_binary_header)
"""The decoders of a header and a body, by serialize type."""

Split = tuple[int, bytes, bytes]
"""A frame cut in three: serialize type, header, body."""


def frame_limit_bytes(version: int) -> int:
    """Return the longest frame that a peer of this protocol ``version`` takes."""
    return LEGACY_MAX_FRAME_BYTES if version < Version.V4_0_0 else MAX_FRAME_BYTES


def encode_frame(frame: Frame, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Write ``frame``, length word included.

    Raises ``LocalProtocolError`` for what the header cannot hold, and for a frame longer than
    ``max_frame_bytes`` (see ``frame_limit_bytes``): its receiver would close the connection.
    """
    if not (
        INT32_MIN <= frame.opaque <= INT32_MAX
        and INT32_MIN <= frame.code <= INT32_MAX
        and INT32_MIN <= frame.flag <= INT32_MAX
        and INT32_MIN <= frame.version <= INT32_MAX
    ):
        raise LocalProtocolError(
            f"beyond 32 bits: one of code {frame.code}, opaque {frame.opaque}, "
            f"flag {frame.flag}, version {frame.version}"
        )
    serialize, body = frame.serialize, frame.body
    header = encode_binary_header(frame) if serialize else encode_json_header(frame)
    length = 4 + len(header) + len(body)
    if length + 4 > max_frame_bytes or len(header) > _HEADER_LENGTH_MASK:
        raise LocalProtocolError(
            f"frame of {length + 4} bytes ({len(header)} of header), "
            f"the receiver takes at most {max_frame_bytes}"
        )
    return b"".join((_HEAD.pack(length, serialize << 24 | len(header)), header, body))


def decode_frame(data: bytes | bytearray | memoryview) -> Frame:
    """Read one frame from ``data``: all its bytes, but without the length word.

    Raises ``RemoteProtocolError`` naming the byte or the field that is wrong.
    """
    if len(data) < 4:
        raise RemoteProtocolError(f"frame length {len(data)}: no room for the header word")
    data = bytes(data)
    (word,) = _HEADER_WORD.unpack_from(data)
    end = 4 + _header_bytes(word, len(data))
    return DECODERS[word >> 24](data[4:end], data[end:])


def decode_split(split: Split) -> Frame:
    """Read a frame that ``split_frames`` cut; raises ``RemoteProtocolError``."""
    serialize, header, body = split
    return DECODERS[serialize](header, body)


def split_frames(
    buffer: bytes | bytearray, *, max_frame_bytes: int = MAX_FRAME_BYTES
) -> tuple[list[Split], int]:
    """Find the whole frames at the front of ``buffer``, ``SPLIT_FRAMES_MAX`` at most; returns them,
    and how many bytes they are.

    Raises ``RemoteProtocolError`` as soon as the length word and the header word of a frame at
    the front can be seen to be impossible. Frames before such a one are returned first: a
    server reads on only after a call that returned nothing.
    """
    splits: list[Split] = []
    at, end = 0, len(buffer)
    if end < 4:
        return splits, 0
    # What one read brought is cut as it is; what is being collected, without a copy of its own.
    view = buffer if isinstance(buffer, bytes) else memoryview(buffer)
    while end - at >= 8 and len(splits) < SPLIT_FRAMES_MAX:
        length, word = _HEAD.unpack_from(view, at)
        header_bytes = word & _HEADER_LENGTH_MASK
        if (
            length + 4 > max_frame_bytes
            or header_bytes + 4 > length
            or word >= 2 << 24
            or header_bytes > MAX_HEADER_BYTES
        ):
            break
        next_at = at + 4 + length
        if next_at > end:
            break
        body_at = at + 8 + header_bytes
        splits.append((word >> 24, bytes(view[at + 8 : body_at]), bytes(view[body_at:next_at])))
        at = next_at
    if not splits:
        _check_head(buffer, max_frame_bytes)
    return splits, at


def _check_head(buffer: bytes | bytearray, max_frame_bytes: int) -> None:
    (length,) = _LENGTH.unpack_from(buffer)
    if length < 4 or length + 4 > max_frame_bytes:
        raise RemoteProtocolError(
            f"frame length {length} (bytes 0 to 3: {buffer[:4].hex()}), "
            f"it must be from 4 to {max_frame_bytes - 4}"
        )
    if len(buffer) >= 8:
        _header_bytes(_HEADER_WORD.unpack_from(buffer, 4)[0], length)


def _header_bytes(word: int, length: int) -> int:
    """Check the header word of a frame of ``length`` bytes and return the header's length."""
    serialize, header_bytes = word >> 24, word & _HEADER_LENGTH_MASK
    if serialize >= len(DECODERS):
        raise RemoteProtocolError(f"serialize type {serialize} (byte 4), only 0 and 1 are known")
    if header_bytes > length - 4:
        raise RemoteProtocolError(
            f"header length {header_bytes} (bytes 5 to 7), the frame has only {length - 4} left"
        )
    if header_bytes > MAX_HEADER_BYTES:
        raise RemoteProtocolError(
            f"header length {header_bytes} (bytes 5 to 7), at most {MAX_HEADER_BYTES} are read"
        )
    return header_bytes
