"""Compressed bodies."""

import zlib
from contextlib import suppress

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError, SysFlag
from lanemq.wire.message import compress_body, decompress_body

ZLIB = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
LZ4 = SysFlag.COMPRESSED | SysFlag.COMPRESSION_LZ4
ZSTD = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD


def pack(sys_flag: int, body: bytes) -> bytes:
    return compress_body(body, kind=sys_flag & SysFlag.COMPRESSION_MASK)


KINDS = pytest.mark.parametrize("sys_flag", [SysFlag.COMPRESSED, ZLIB, LZ4, ZSTD])


def test_other_libraries_read_what_is_written() -> None:
    body = b"compressible " * 20_000
    assert lz4.frame.decompress(pack(LZ4, body)) == body
    assert zstandard.decompress(pack(ZSTD, body)) == body
    assert zlib.decompress(pack(ZLIB, body)) == zlib.decompress(pack(SysFlag.COMPRESSED, body))


def test_blocks_of_lz4_stand_alone_since_java_reads_no_others() -> None:
    flags = pack(LZ4, b"compressible " * 20_000)[4]  # behind the magic number
    assert flags & 0b0010_0000  # LZ4 Frame Format 1.6: block independence


def test_linked_blocks_of_lz4_are_read() -> None:
    body = b"compressible " * 20_000
    assert decompress_body(LZ4, lz4.frame.compress(body, block_linked=True)) == body


@KINDS
@given(body=st.binary(), times=st.integers(1, 300))
def test_bodies_come_back(sys_flag: int, body: bytes, times: int) -> None:
    whole = body * times
    packed = pack(sys_flag, whole)
    assert decompress_body(sys_flag, packed) == whole
    assert decompress_body(sys_flag, packed, max_bytes=len(whole)) == whole


@given(st.binary(), st.integers(0, 0xFFFF))
def test_without_the_bit_a_body_is_left_alone(body: bytes, sys_flag: int) -> None:
    assert decompress_body(sys_flag & ~SysFlag.COMPRESSED, body) == body


@KINDS
def test_a_body_beyond_the_limit_is_refused(sys_flag: int) -> None:
    packed = pack(sys_flag, bytes(1_000_000))
    with pytest.raises(RemoteProtocolError, match="more than 999999 bytes"):
        decompress_body(sys_flag, packed, max_bytes=999_999)


@KINDS
@given(st.binary(min_size=1), st.data())
def test_a_cut_body_is_refused(sys_flag: int, body: bytes, data: st.DataObject) -> None:
    packed = pack(sys_flag, body)
    cut = packed[: data.draw(st.integers(0, len(packed) - 1))]
    with pytest.raises(RemoteProtocolError):
        decompress_body(sys_flag, cut)


@KINDS
@given(st.binary())
def test_garbage_is_only_ever_a_remote_protocol_error(sys_flag: int, body: bytes) -> None:
    with suppress(RemoteProtocolError):
        decompress_body(sys_flag, body)


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x600, 0x700])
def test_an_unknown_compression_is_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown compression"):
        decompress_body(SysFlag.COMPRESSED | kind, b"")


def test_bytes_after_a_zlib_stream_are_passed_over_as_java_does() -> None:
    assert decompress_body(SysFlag.COMPRESSED, zlib.compress(b"body") + b"tail") == b"body"
