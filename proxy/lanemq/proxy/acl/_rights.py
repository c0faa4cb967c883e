"""The rights of a request's sender, for handlers that find out which objects a request touches.

Before a handler runs, the objects that its request names are checked. A request may also lead to
objects that it does not name: a place in the log to a message, a group to its topics. The handler
asks for the rights to these once it has found them, in words that both kinds of accounts share.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple, final

from lanemq.wire import Refused
from lanemq.wire.kv import all_keys
from lanemq.wire.logical import parse_progress_topic


@final
class Object(Enum):
    """The kinds of objects."""

    TOPIC = "topic"
    GROUP = "group"
    """A group of consumers."""
    PRODUCERS = "producer group"


@final
class Use(Enum):
    """The uses of an object by a request."""

    SEND = "send"
    READ = "read"
    """Read messages one by one; in 5.x the action Get will do."""
    CONSUME = "consume"
    UPDATE = "update"
    REPLY = "reply"
    """Send a client of a producer group the reply to its request."""


class Touched(NamedTuple):
    """An object that a request touches, and what it does with it."""

    kind: Object
    name: str
    use: Use


class Sender(NamedTuple):
    """The account behind a request, for what a server does later in its name."""

    name: str = ""
    """Its access key, or the user's name; "" for nobody."""
    mark: str = ""
    """The mark of the secret that signed the request (``SignatureCheck.mark``); "" where its
    address let it in and it was not signed. The name counts for as long as that is its secret."""


Lacking = Callable[[Touched], str | None]
"""Returns the reason why a sender may not touch an object; None if it may."""


@final
class Rights:
    """The rights of one sender; without ``lacking`` it may do everything."""

    __slots__ = ("_lacking", "_refuse")

    def __init__(
        self, lacking: Lacking | None = None, refuse: Callable[[str], Refused] | None = None
    ) -> None:
        self._lacking = lacking
        self._refuse = refuse

    @property
    def are_limited(self) -> bool:
        """False for a sender who may do everything."""
        return self._lacking is not None

    def may(self, *touched: Touched) -> bool:
        """Return whether the sender may touch all the objects."""
        return self._lacking is None or not any(map(self._lacking, touched))

    def require(self, *touched: Touched) -> None:
        """Raise ``Refused``, with Apache's code and words, for an object the sender may not
        touch."""
        if self._lacking is None:
            return
        for one in touched:
            why = self._lacking(one)
            if why is not None:
                assert self._refuse is not None, "who is limited can be refused"
                raise self._refuse(why)


UNLIMITED: Final = Rights()
"""The rights of everyone at a broker without accounts."""


def sends_to(topic: str) -> Touched:
    """Return what a send to a topic touches."""
    return Touched(Object.TOPIC, topic, Use.SEND)


def reads_of(topic: str) -> Touched:
    """Return what it touches to look at one message of a topic."""
    return Touched(Object.TOPIC, topic, Use.READ)


def changes_progress(group: str, topic: str) -> tuple[Touched, Touched]:
    """Return what it touches to set a group's offsets in a topic."""
    progress = parse_progress_topic(topic)
    name = topic if progress is None else progress.topic
    return Touched(Object.GROUP, group, Use.UPDATE), Touched(Object.TOPIC, name, Use.UPDATE)


def reads_group(group: str) -> Touched:
    """Return what it touches to look at a group."""
    return Touched(Object.GROUP, group, Use.READ)


def consumes_as(group: str, topics: Iterable[str]) -> list[Touched]:
    """Return what a member of a group of consumers touches that subscribes to topics."""
    read = [Touched(Object.TOPIC, topic, Use.CONSUME) for topic in topics]
    return [Touched(Object.GROUP, group, Use.CONSUME), *read]


def produces_as(group: str) -> Touched:
    """Return what a member of a producer group, or the end of its transaction, touches."""
    return Touched(Object.PRODUCERS, group, Use.SEND)


def replies_to(group: str) -> Touched:
    """Return what a reply touches whose client is a member of a producer group."""
    return Touched(Object.PRODUCERS, group, Use.REPLY)


def reads_keys(namespace: str) -> Touched:
    """Return what it touches to read all keys of a namespace."""
    return Touched(Object.TOPIC, all_keys(namespace), Use.CONSUME)
