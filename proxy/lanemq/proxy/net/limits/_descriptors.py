"""File descriptors: as many as the system allows, some of them reserved for the store.

A peer costs one, and so does every file that the store has to open. Peers are refused before the
last ones are gone, so that they can never keep a message from the disk.
"""

import resource
from typing import Final

RESERVED: Final = 1024
"""Descriptors reserved for the files of the store, RocksDB's among them, links to other servers,
and logs."""
RESERVED_SHARE: Final = 2
"""The share of a low limit that is reserved at most, so that some are left for peers."""


def raise_limit() -> int:
    """Raise the limit of descriptors to the hard limit, if possible; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems name a hard limit that they do not give
            return soft
    return hard


def peers_max() -> int:
    """Return the number of peers' connections that the present limit allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft - min(RESERVED, soft // RESERVED_SHARE)
