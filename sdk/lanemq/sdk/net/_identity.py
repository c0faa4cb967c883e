"""The identity of a client: its id at the brokers, and the source of its messages' unique keys.

An address, a process id and a number do not tell clients apart: containers behind one address
all have process id 1, and a forked process continues its parent's numbers. So both have a random
part, drawn when the client is opened.
Source of the forms: RocketMQ 4.9.8, ClientConfig.buildMQClientId, MessageClientIDSetter.
"""

import ipaddress
import itertools
import os
from typing import Final

from lanemq.wire.message import UniqueKeys

DEFAULT_INSTANCE: Final = "default"
RANDOM_BYTES: Final = 8
"""Bytes of the random part of a client id."""

_NUMBERS = itertools.count(1)  # shows people the order of the clients of one process


def new_client_id(ip: bytes, instance: str) -> str:
    """Return an id that no other client has: ``ip@[instance#]pid#number#random``.

    ``ip`` has 4 or 16 bytes. Tools show what is before ``@`` as the client's address.
    """
    named = "" if instance == DEFAULT_INSTANCE else f"{instance}#"
    random = os.urandom(RANDOM_BYTES).hex()
    return f"{ipaddress.ip_address(ip)}@{named}{os.getpid()}#{next(_NUMBERS)}#{random}"


def new_unique_keys(ip: bytes) -> UniqueKeys:
    """Return a source of keys that repeats no other source's.

    A key has 4 bytes in which Java writes the hash of its class loader, and 2 of a counter, which
    Java begins at 0: here all 6 begin at random. Address, process id and time stay readable.
    """
    random = os.urandom(6)
    return UniqueKeys(
        ip,
        os.getpid(),
        loader_hash=int.from_bytes(random[:4], "big"),
        first=int.from_bytes(random[4:], "big"),
    )
