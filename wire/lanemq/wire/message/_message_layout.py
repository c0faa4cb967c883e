"""The record of a stored message: in the commit log, and in answers to pulls and queries.

Integers are signed and big-endian; every length counts bytes. A host is an IP of 4 or 16
bytes and a port of 4; bits of the sysFlag say which, so there is one layout for each pair.
Version 2 (5.x only) has a topic length of two bytes instead of one.
Source: RocketMQ 4.9.8, CommitLog.MessageExtEncoder; 5.3.3, MessageVersion.
"""

from typing import Final

import construct as cs

from .._layout import FixedLayout, fixed_prefix
from .._sys_flags import SysFlag

MAGIC_V1: Final = -626843481  # 0xDAA320A7
MAGIC_V2: Final = -626843477  # 0xDAA320AB
MAGIC_BLANK: Final = -875286124  # 0xCBD43194: fills the end of a log file, never on the wire
MAX_V1_TOPIC_BYTES: Final = 127
MAX_PROPERTIES_BYTES: Final = 32767


def record_layout(
    *, born_host_bytes: int, store_host_bytes: int, topic_size: "cs.FormatField[int, int]"
) -> cs.Struct:
    """Return the declaration of one variant."""
    return cs.Struct(
        "size_bytes" / cs.Int32sb,  # of the whole record, this field included
        "magic" / cs.Int32sb,
        "body_crc" / cs.Int32sb,  # CRC-32 of the body as stored, without the top bit
        "queue_id" / cs.Int32sb,
        "flag" / cs.Int32sb,  # the application's own
        "queue_offset" / cs.Int64sb,  # counts messages
        "log_position" / cs.Int64sb,  # counts bytes
        "sys_flag" / cs.Int32sb,
        "born_timestamp_ms" / cs.Int64sb,
        "born_host" / cs.Bytes(born_host_bytes),
        "store_timestamp_ms" / cs.Int64sb,
        "store_host" / cs.Bytes(store_host_bytes),
        "reconsume_times" / cs.Int32sb,
        "prepared_transaction_offset" / cs.Int64sb,
        "body_size" / cs.Int32sb,
        "body" / cs.Bytes(cs.this.body_size),
        "topic_size" / topic_size,
        "topic" / cs.Bytes(cs.this.topic_size),
        "properties_size" / cs.Int16sb,
        "properties" / cs.Bytes(cs.this.properties_size),
    )


def _variant(magic: int, hosts: int) -> cs.Struct:
    return record_layout(
        born_host_bytes=20 if hosts & SysFlag.BORN_HOST_V6 else 8,
        store_host_bytes=20 if hosts & SysFlag.STORE_HOST_V6 else 8,
        topic_size=cs.Int8sb if magic == MAGIC_V1 else cs.Int16sb,
    )


HOSTS = (0, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_V6_MASK)
# (magic, host bits of the sysFlag) -> declaration
RECORD_LAYOUTS: Final = {
    (magic, hosts): _variant(magic, hosts) for magic in (MAGIC_V1, MAGIC_V2) for hosts in HOSTS
}
# The fields before the body, for each pair of host sizes; equal in both versions.
HEADS: Final[dict[int, FixedLayout]] = {
    hosts: fixed_prefix(RECORD_LAYOUTS[MAGIC_V1, hosts]) for hosts in HOSTS
}
# The same in two: up to the sysFlag, which tells the host sizes, and from there to the body.
PROLOGUE: Final = fixed_prefix(cs.Struct(*RECORD_LAYOUTS[MAGIC_V1, 0].subcons[:8]))
EPILOGUES: Final[dict[int, FixedLayout]] = {
    hosts: fixed_prefix(cs.Struct(*RECORD_LAYOUTS[MAGIC_V1, hosts].subcons[8:])) for hosts in HOSTS
}

assert HEADS[0].size_bytes == 88
assert PROLOGUE.names[-1] == "sys_flag"
assert EPILOGUES[0].names[-1] == "body_size"
