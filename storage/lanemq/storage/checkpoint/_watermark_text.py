"""The text of the watermarks' file, in pieces that each take a turn of the event loop little time.

Its large part is the bounds, of very many queues perhaps.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from ..queues.files._bounds import QueueBounds

PIECE_QUEUES: Final = 1000


def text_of(members: Mapping[str, object], bounds: QueueBounds) -> Iterator[bytes]:
    """Encode one JSON object of members and ``bounds``, those of ``PIECE_QUEUES`` queues in a
    piece."""
    head = msgspec.json.format(msgspec.json.encode(members), indent=1)
    yield head.removesuffix(b"\n}") + b',\n "bounds": {\n'
    yield from _members(bounds)
    yield b"\n }\n}\n"


def _members(bounds: QueueBounds) -> Iterator[bytes]:
    comma, part, count = b"", QueueBounds(), 0
    for topic, queues in list(bounds.items()):  # topics may leave between two pieces
        if len(queues) > PIECE_QUEUES:
            yield from _long_member(comma, topic, queues)
            comma = b",\n"
            continue
        part[topic] = queues
        count += len(queues)
        if count >= PIECE_QUEUES:
            yield comma + _inside(part)
            comma, part, count = b",\n", QueueBounds(), 0
    if part:
        yield comma + _inside(part)


def _long_member(comma: bytes, topic: str, queues: dict[int, tuple[int, int]]) -> Iterator[bytes]:
    before, items = comma + msgspec.json.encode(topic) + b":{", list(queues.items())
    for begin in range(0, len(items), PIECE_QUEUES):
        yield before + _inside(dict(items[begin : begin + PIECE_QUEUES]))
        before = b","
    yield b"}"


def _inside(members: object) -> bytes:
    """Encode an object without its braces."""
    return msgspec.json.encode(members)[1:-1]
