"""The zeros that files of fixed size end with."""

from typing import Final

BLOCK_BYTES: Final = 4096
ZEROS: Final = bytes(BLOCK_BYTES)


def without_zeros(data: bytes) -> bytes:
    """Return the data up to its last byte that is not zero."""
    # Block by block: ``rstrip`` alone asks for each byte whether it is one to strip.
    end = len(data)
    while data.endswith(ZEROS, 0, end):
        end -= BLOCK_BYTES
    return data[:end].rstrip(b"\0")
