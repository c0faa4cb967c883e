"""Names of queues in JSON bodies, replaced. All pure.

A queue is an object of ``topic``, ``brokerName`` and ``queueId``, also as the key of a table, and
``offset`` besides for clients in C++. All else stays as it is, an object with more than nine blanks
between two words among it. Bodies come in pieces, so that a long one can be made in several turns
of the event loop: each piece takes a millisecond or two at most, whatever the body is.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from lanemq.wire import RemoteProtocolError

from ._order import SeenQueue

_TEXT: Final = rb'"([^"\\]{0,255})"'
_MEMBER: Final = (
    rb'(?:"brokerName"\s{0,9}:\s{0,9}"[^"\\]{0,255}"|"topic"\s{0,9}:\s{0,9}"[^"\\]{0,255}"'
    rb'|"queueId"\s{0,9}:\s{0,9}-?\d{1,10}|"offset"\s{0,9}:\s{0,9}-?\d{1,20})'
)
_OBJECT: Final = rb"\{\s{0,9}" + _MEMBER + rb"(?:\s{0,9},\s{0,9}" + _MEMBER + rb"){2,3}\s{0,9}\}"
_QUEUE: Final = re.compile(_OBJECT)
_ENTRY: Final = re.compile(rb"(" + _OBJECT + rb")(\s{0,9}:\s{0,9}\{[^{}]{0,1000}\})")
_ENTRY_BYTES: Final = 4096
"""More than any of these takes."""
LOOK_BYTES: Final = 16 << 10
"""The bytes in which one step looks for the next."""
_BROKER: Final = re.compile(rb'("brokerName"\s*:\s*)' + _TEXT)
_TOPIC: Final = re.compile(rb'"topic"\s*:\s*' + _TEXT)
_QUEUE_ID: Final = re.compile(rb'("queueId"\s*:\s*)(-?\d{1,10})')
_RATE: Final = re.compile(rb'("(?:consumeTps|topicPutTps)"\s*:\s*)[0-9.Ee+-]+')

Rename = Callable[[str, str, int], SeenQueue | None]
"""Gives the new name of a queue, by its topic, broker and number; None for one that keeps its."""


def with_queues(body: bytes, rename: Rename) -> bytes:
    """Return a body in which queues have other names."""
    return b"".join(renamed_pieces(body, rename))


def renamed_pieces(body: bytes, rename: Rename) -> Iterator[bytes]:
    """Iterate over the pieces of ``with_queues``, some for each queue."""
    at = 0
    for match in _found(_QUEUE, body):
        if match is None:
            yield b""
            continue
        yield body[at : match.start()]
        at = match.end()
        yield _renamed(match[0], rename)[0]
    yield body[at:]


def queues_in(body: bytes, rename: Rename) -> Iterator[tuple[str | None, bytes]]:
    """Iterate over the queues of a body with one list of them: the broker and the object of each,
    by their new names. First comes what is before the list, and last what is behind it, with None.

    Raises ``RemoteProtocolError`` where something else is between them.
    """
    at = 0
    for match in _joined(_QUEUE, body, "list of queues"):
        if not at:
            yield None, body[: match.start()]
        at = match.end()
        text, broker = _renamed(match[0], rename)
        yield broker, text
    if at:
        yield None, body[at:]


def chosen_pieces(body: bytes, rename: Rename, name: str, *, has_rates: bool) -> Iterator[bytes]:
    """Iterate over the pieces of a body with a table of queues, of which those at broker ``name``
    stay, by their new names. Without ``has_rates`` rates of the whole broker are 0.

    Raises ``RemoteProtocolError`` where something else is between them.
    """
    at, is_first = 0, True
    for match in _joined(_ENTRY, body, "table of queues"):
        if not at:
            head = body[: match.start()]
            yield head if has_rates else _RATE.sub(rb"\g<1>0.0", head)
        at = match.end()
        text, broker = _renamed(match[1], rename)
        if broker == name:
            yield text + match[2] if is_first else b"," + text + match[2]
            is_first = False
        else:
            yield b""
    rest = body[at:]
    yield rest if has_rates else _RATE.sub(rb"\g<1>0.0", rest)


def _joined(pattern: re.Pattern[bytes], body: bytes, what: str) -> Iterator[re.Match[bytes]]:
    """Iterate over what is found in a body, with a comma between two. Raises
    ``RemoteProtocolError`` where something else is there, or very much before and behind them."""
    at = 0
    for match in _found(pattern, body):
        if match is None or (at and body[at : match.start()].strip() != b","):
            raise RemoteProtocolError(f"byte {at}: no {what} goes on there")
        yield match
        at = match.end()


def _found(pattern: re.Pattern[bytes], body: bytes) -> Iterator[re.Match[bytes] | None]:
    """Iterate over what is found in a body, and None where a step finds nothing, and is not the
    last one."""
    at, end = 0, LOOK_BYTES
    while (match := pattern.search(body, at, end)) is not None or end < len(body):
        yield match
        at = end - _ENTRY_BYTES if match is None else match.end()
        end = at + LOOK_BYTES


def _renamed(text: bytes, rename: Rename) -> tuple[bytes, str]:
    """Return the object of a queue with its new name, and the name of its broker."""
    found = _BROKER.search(text), _TOPIC.search(text), _QUEUE_ID.search(text)
    broker, topic, number = found
    if broker is None or topic is None or number is None:
        return text, ""
    try:
        name = broker[2].decode()
        new = rename(topic[1].decode(), name, int(number[2]))
    except UnicodeDecodeError:
        return text, ""
    if new is None:
        return text, name
    if new.broker != name:
        text = _BROKER.sub(lambda one: one[1] + b'"' + new.broker.encode() + b'"', text)
    return _QUEUE_ID.sub(lambda one: one[1] + b"%d" % new.queue_id, text), new.broker
