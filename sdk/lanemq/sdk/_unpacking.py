"""Compressed bodies, unpacked before the application's function or loop gets their messages.

A few kilobytes may unpack to megabytes, which take milliseconds each. So the event loop unpacks
``QUICK_BYTES`` at a time, and a thread the rest: ``message.body`` stays a plain property.
"""

from collections.abc import Sequence
from typing import Final

import trio

from ._messages import ReceivedMessage

QUICK_BYTES: Final = 64 << 10
"""Bytes that are unpacked in one turn of a loop, at a quarter of a millisecond."""


def any_packed(messages: Sequence[ReceivedMessage]) -> bool:
    """Return whether the body of one of ``messages`` is still to be unpacked."""
    for message in messages:  # noqa: SIM110 - any() costs three times as much for each call
        if message._is_packed:
            return True
    return False


def unpack_quickly(messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
    """Unpack bodies of ``QUICK_BYTES`` together; return the messages that are left."""
    packed = [message for message in messages if message._is_packed]
    left = QUICK_BYTES
    for number, message in enumerate(packed):
        size_bytes = message._unpack_within(left)
        if size_bytes is None:
            return packed[number:]
        left -= size_bytes
    return []


def unpack_now(messages: Sequence[ReceivedMessage], most_bytes: int | None = None) -> None:
    """Unpack bodies in the calling thread, and stop when they have ``most_bytes`` together.

    Those that cannot be restored are passed over: ``message.body`` says what is wrong.
    """
    size_bytes = 0
    for message in messages:
        size_bytes += message._unpack()
        if most_bytes is not None and size_bytes >= most_bytes:
            return


async def unpack(messages: Sequence[ReceivedMessage], most_bytes: int | None = None) -> None:
    """Unpack bodies as ``unpack_now``, beside the event loop but for ``QUICK_BYTES``."""
    left = unpack_quickly(messages)
    if left:
        await trio.to_thread.run_sync(unpack_now, left, most_bytes)


def ready_part(messages: Sequence[ReceivedMessage], most_bytes: int) -> int:
    """Return how many of ``messages`` may be handed over together, from the first on.

    The next is still packed, or those before it were unpacked to ``most_bytes`` together.
    """
    size_bytes = 0
    for count, message in enumerate(messages):
        if message._is_packed or size_bytes >= most_bytes:
            return count
        size_bytes += message._unpacked_bytes
    return len(messages)
