"""Bodies of messages, compressed and not.

Producers from 4.9.4 on may use lz4 and zstd; older consumers know only zlib. Source:
RocketMQ 5.3.3, CompressionType, MessageDecoder.
"""

import zlib
from collections.abc import Iterator
from typing import Final

import lz4.frame
import zstandard

from .._errors import RemoteProtocolError
from .._sys_flags import SysFlag

COMPRESSION_LEVEL: Final = 5
# A body of 4 MiB, the limit of a broker, may come out of a few kilobytes. This is the most
# that one message may unpack to, unless the caller says otherwise.
MAX_BODY_BYTES: Final = 64 << 20
PIECE_BYTES: Final = 64 << 10
ZSTD_WINDOW_BYTES: Final = 8 << 20  # every decoder must grant as much


class BodyTooLong(RemoteProtocolError):  # noqa: N818 - named for what happened
    """A compressed body that unpacks to more than its reader takes."""


def compress_body(
    body: bytes, level: int = COMPRESSION_LEVEL, *, kind: int = SysFlag.COMPRESSION_ZLIB
) -> bytes:
    """Compress ``body`` as a stream of ``kind``, one of the numbers ``SysFlag.COMPRESSION_…``.

    The message's sysFlag then needs ``SysFlag.COMPRESSED``, and ``kind`` unless that is zlib.
    ``level`` is that of zlib and of zstd.
    """
    if kind == SysFlag.COMPRESSION_LZ4:
        # Java's reader refuses blocks that refer to those before them.
        packed: bytes = lz4.frame.compress(body, block_linked=False)
        return packed
    if kind == SysFlag.COMPRESSION_ZSTD:
        return zstandard.compress(body, level)
    return zlib.compress(body, level)


def decompress_body(sys_flag: int, body: bytes, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the body as the application gave it; ``body`` itself unless the flag says compressed.

    Raises ``RemoteProtocolError`` for an unknown compression and for a broken or cut stream, and
    ``BodyTooLong`` for a body of more than ``max_bytes``; no more memory than that is taken.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = sys_flag & SysFlag.COMPRESSION_MASK
    try:
        if kind in (0, SysFlag.COMPRESSION_ZLIB):
            data, complete = _read_zlib(body, max_bytes)
        elif kind == SysFlag.COMPRESSION_LZ4:
            data, complete = _read_lz4(body, max_bytes)
        elif kind == SysFlag.COMPRESSION_ZSTD:
            data, complete = _read_zstd(body, max_bytes)
        else:
            raise RemoteProtocolError(f"unknown compression in sysFlag {sys_flag:#x}")
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:
        raise RemoteProtocolError(f"broken compressed body: {error}") from error
    if len(data) > max_bytes:
        raise BodyTooLong(f"a compressed body unpacks to more than {max_bytes} bytes")
    if not complete:
        raise RemoteProtocolError("a compressed body ends too early")
    return data


def unpacked_pieces(data: bytes, *, max_bytes: int) -> Iterator[bytes]:
    """Unpack a zlib stream, ``PIECE_BYTES`` at a time.

    Raises ``RemoteProtocolError`` for a broken or cut stream, and, as soon as it is known, for one
    of more than ``max_bytes``.
    """
    stream, size_bytes, rest = zlib.decompressobj(), 0, data
    while not stream.eof:
        try:
            piece = stream.decompress(rest, PIECE_BYTES)
        except zlib.error as error:
            raise RemoteProtocolError(f"broken compressed body: {error}") from error
        rest = stream.unconsumed_tail
        size_bytes += len(piece)
        if size_bytes > max_bytes:
            raise RemoteProtocolError(f"a compressed body unpacks to more than {max_bytes} bytes")
        if not piece and not rest and not stream.eof:
            raise RemoteProtocolError("a compressed body ends too early")
        yield piece


# Each reader asks for one byte more than is allowed, which tells "too long" from "just fits".


def _read_zlib(body: bytes, max_bytes: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    data = stream.decompress(body, max_bytes + 1)
    return data, stream.eof


def _read_lz4(body: bytes, max_bytes: int) -> tuple[bytes, bool]:
    stream = lz4.frame.LZ4FrameDecompressor()
    data: bytes = stream.decompress(body, max_bytes + 1)
    return data, stream.eof


def _read_zstd(body: bytes, max_bytes: int) -> tuple[bytes, bool]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(max_bytes, ZSTD_WINDOW_BYTES))
    with decompressor.stream_reader(body) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        return data, False
    # The reader does not tell whether the frame ended. This one does, but knows no limit;
    # by now the size is known to be harmless.
    whole = decompressor.decompressobj()
    return whole.decompress(body), whole.eof
