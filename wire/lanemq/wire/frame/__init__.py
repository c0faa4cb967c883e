"""Frames of the remoting protocol: length, header, body; and one side of a connection."""

from ._binary_header import (
    BINARY_HEADER,
)
from ._command import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    JAVA,
    MAX_FIELDS,
    Frame,
    SerializeType,
    request,
)
from ._connection import (
    NEED_DATA,
    Connection,
    NeedData,
    PeerClosed,
)
from ._frame import (
    FRAME,
    LEGACY_MAX_FRAME_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    decode_frame,
    decode_split,
    encode_frame,
    frame_limit_bytes,
    split_frames,
)

__all__ = [
    "BINARY_HEADER",
    "FLAG_ONEWAY",
    "FLAG_RESPONSE",
    "FRAME",
    "JAVA",
    "LEGACY_MAX_FRAME_BYTES",
    "MAX_FIELDS",
    "MAX_FRAME_BYTES",
    "MAX_HEADER_BYTES",
    "NEED_DATA",
    "Connection",
    "Frame",
    "NeedData",
    "PeerClosed",
    "SerializeType",
    "decode_frame",
    "decode_split",
    "encode_frame",
    "frame_limit_bytes",
    "request",
    "split_frames",
]
