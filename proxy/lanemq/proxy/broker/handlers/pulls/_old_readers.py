"""Records for clients that read every host as IPv4.

Clients before 4.6.0 take eight bytes for a host whatever the sysFlag says, and misread all
that follows an IPv6 one: they lose the rest of the pull without a word. Such hosts are
replaced by 0.0.0.0 in what they are given. Stored records keep the real ones.

Source: RocketMQ 4.9.8, MessageDecoder; 4.5.2, the same.
"""

from typing import Final

import msgspec

from lanemq.wire import HostAddress, SysFlag
from lanemq.wire.message import decode_message, encode_message

FIRST_READER_OF_IPV6: Final = 333
"""The protocol version of 4.6.0."""

_SYS_FLAG_LOW_BYTE: Final = 39


def for_reader(record: bytes, version: int) -> bytes:
    """Return ``record`` in the form that a client of protocol ``version`` can read."""
    if version >= FIRST_READER_OF_IPV6 or not record[_SYS_FLAG_LOW_BYTE] & SysFlag.HOSTS_V6_MASK:
        return record
    return _with_ipv4_hosts(record)


def for_reader_all(records: list[bytes], version: int) -> list[bytes]:
    """Convert the records of one pull as ``for_reader``."""
    if version >= FIRST_READER_OF_IPV6:
        return records
    return [for_reader(record, version) for record in records]


def _with_ipv4_hosts(record: bytes) -> bytes:
    message = decode_message(record)
    return encode_message(
        msgspec.structs.replace(
            message,
            born_host=_ipv4(message.born_host),
            store_host=_ipv4(message.store_host),
        )
    )


def _ipv4(host: HostAddress) -> HostAddress:
    return HostAddress("0.0.0.0", host.port) if host.is_v6 else host
