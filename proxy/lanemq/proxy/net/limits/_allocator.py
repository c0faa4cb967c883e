"""The C library's allocator: large blocks go back to the system as soon as they are free.

glibc maps a large block on its own at first. When the first of some size is freed it raises its
threshold (up to 32 MiB), and takes blocks below that from its heap from then on, where a frame that
grows beside others leaves holes: a process that keeps 256 MiB for its peers then had up to twice
as much. A threshold that is set stays as it is.
"""

import ctypes
from typing import Final

M_MMAP_THRESHOLD: Final = -3
"""The parameter's number in glibc's ``malloc.h``."""
MAPPED_BYTES: Final = 1 << 20
"""Blocks from this size on are mapped on their own."""


def map_large_blocks() -> bool:
    """Map large blocks on their own; returns False where the C library cannot do that.

    (Others than glibc have no such parameter.)
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES))
