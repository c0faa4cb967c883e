"""The declaration of one request: its headers, its body, its ports, and the objects it touches."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

from .._codes import RequestCode
from .._names import listed
from ..headers import Header
from ..kv import KeySpan
from ._rights import Action, Kind, Right


@final
class Port(Enum):
    """The servers that a request is for."""

    NAME_SERVER = "name server"
    BROKER = "broker"
    LISTENER = "logical listener"
    PROXY = "proxy"
    """The port for routes of a proxy in front of a cluster."""


@final
class BodyKind(Enum):
    """The kinds of bodies that requests have."""

    NONE = "none"
    """No body; a server bounds the size of one that comes all the same."""
    UNREAD = "unread"
    """No body; a server does not even look for one, because these requests are hot."""
    JSON = "JSON"
    TEXT = "text"
    """Lines of ``key=value``."""
    LONG = "long"
    """Messages, values, or all topics of a broker: as long as a frame may be."""


@final
class AnswerSize(Enum):
    """The longest bodies of answers, in bytes, by what they are about.

    Whoever asks reads none that is longer: 16 MiB of JSON hold a process for half a second.
    """

    ONE = 1 << 20
    """One queue, client, user or server, or nothing at all."""
    WIDE = 4 << 20
    """One topic or group, with all its brokers, queues, members or consumers."""
    ALL = 16 << 20
    """All topics, groups, offsets or brokers, or what is not JSON, such as messages and values: as
    long as a frame may be."""


@final
class Absent(Enum):
    """The meaning of a field that is left away, or empty."""

    INVALID = "invalid"
    """The handler refuses the request. Accounts need the right to the object without a name."""
    NOTHING = "nothing"
    """The request touches no such object."""
    EVERYTHING = "everything"
    """The request touches all objects of the kind, so the right to the broker is needed."""


@final
@dataclass(frozen=True, slots=True)
class Field:
    """An ext field that names an object, or several."""

    name: str
    absent: Absent = Absent.INVALID
    separator: str = ""
    """The character between several names; "" for a field of one name."""
    prefix: str = ""
    """The text before the object's name: a namespace of keys is a topic ``%KV%NAMESPACE``."""
    default: str = ""
    """The name where the field is left away."""
    retry_group: str = ""
    """The field with the sender's group: beside a retry topic the right to it is needed, too, as
    by Apache's brokers."""
    spared: str = ""
    """The ending of names that need no right; the touch's reason says why."""
    names_progress: bool = False
    """True where only offsets are touched: the name may be that of progress in logical queues
    (``lanemq.wire.logical.progress_topic``), which is their topic's."""

    def names(self, text: str) -> list[str]:
        """Return the names in the field. Raises ``Refused`` as ``lanemq.wire.listed``."""
        parts = listed(self.name, text, self.separator) if self.separator else [text]
        return [name for name in parts if name]


@final
@dataclass(frozen=True, slots=True)
class InBody:
    """A body that names objects."""

    what: str
    """The names' place, for tables: "the groups and topics of the consumers"."""
    read: Callable[[bytes], Iterable[tuple[Kind, str]]]
    """Iterates over kind and name of each object. Raises ``RemoteProtocolError``."""


@final
@dataclass(frozen=True, slots=True)
class Keys:
    """Fields and a body that name keys of a namespace."""

    what: str
    """The keys, for tables: "the keys in the body"."""
    read: Callable[[Mapping[str, str], bytes], Iterable[KeySpan]]
    """Iterates over the keys. Raises ``RemoteProtocolError``."""
    or_all: str = ""
    """The field without which all namespaces are touched, so that the right to the broker is
    needed."""


@final
@dataclass(frozen=True, slots=True)
class Found:
    """An object that only the handler can find, which then has the right checked."""

    what: str
    """The object, for tables: "the topic of the message"."""


@final
@dataclass(frozen=True, slots=True)
class Whole:
    """The broker as a whole, whatever the request says."""


WHOLE: Final = Whole()
Source = Field | InBody | Keys | Found | Whole


@final
@dataclass(frozen=True, slots=True)
class Touch:
    """An object that a request touches, with the right that it takes.

    ``reason`` says why no right is needed where ``account`` is NONE or there is no action.
    """

    kind: Kind
    source: Source
    account: Right
    """The right of a 4.x account."""
    user: tuple[Action, ...]
    """The actions of 5.x policies, of which any one suffices; of the objects in a body, too."""
    reason: str = ""

    def __post_init__(self) -> None:
        assert self.reason or (self.user and self.account is not Right.NONE), "says no reason"


_READING: Final = frozenset({Action.SUB, Action.GET})
_DONE_BY_READERS: Final = frozenset(
    {
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
    }
)
"""Requests that change something, which consumers make by their right to read."""


@final
@dataclass(frozen=True, slots=True)
class RequestSpec:
    """Everything that is known about a request code.

    A code that no server here serves has no ports; one with ports declares what it touches.
    """

    code: RequestCode
    header: type[Header] | None = None
    """The header of the request; None where all of it is body, or nothing."""
    answer: type[Header] | None = None
    """The header of the answer, likewise."""
    touches: tuple[Touch, ...] = ()
    ports: tuple[Port, ...] = ()
    body: BodyKind = BodyKind.NONE
    answer_size: AnswerSize = AnswerSize.ONE
    """The longest body of an answer."""
    is_shared: bool = False
    """True where a logical listener has its own broker answer the request as it is."""

    def __post_init__(self) -> None:
        assert not self.ports or self.touches, f"{self.code.name} declares no resource"
        assert not self.is_shared or Port.LISTENER in self.ports, self.code.name

    @property
    def only_reads(self) -> bool:
        """True for a request that changes nothing, so that its answer can be refused even when
        it is ready."""
        actions = {action for touch in self.touches for action in touch.user}
        return bool(actions) and actions <= _READING and self.code not in _DONE_BY_READERS


def free(reason: str) -> Touch:
    """Return the declaration of a request that touches nothing, or nothing that is protected."""
    return Touch(Kind.CLUSTER, WHOLE, Right.NONE, (), reason)


BROKER: Final = (Port.BROKER,)
BOTH: Final = (Port.BROKER, Port.LISTENER)
"""The ports of requests that a broker and a logical listener serve."""
NAME_SERVER: Final = (Port.NAME_SERVER,)
PROXY: Final = (Port.PROXY,)
