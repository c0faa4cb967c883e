"""Readers of the rights that requests need, made of the declarations of what requests touch.

Both kinds of accounts have their own form of a need, and make it of a touch and a name. The
fields that a client leaves away do not spare it a right: see ``Absent``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Generic, TypeVar, final

from lanemq.wire import RETRY_PREFIX, Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import KeySpan
from lanemq.wire.logical import PROGRESS_PREFIX, parse_progress_topic
from lanemq.wire.requests import (
    REQUESTS,
    Absent,
    Action,
    Field,
    Found,
    InBody,
    Keys,
    Kind,
    Right,
    Touch,
    Whole,
)

from ..net._dispatch import check_body
from ..net._turns import for_turns

LONG_NAMES_BYTES: Final = 8 << 10
"""A longer body of names is read and judged in turns: each name takes some ten microseconds."""
LONG_KEYS_BYTES: Final = 256 << 10
"""The same for keys, of which a request has 1,024 at most; most of a long body is one value."""

NeedT = TypeVar("NeedT")
Reader = Callable[[Frame], tuple[NeedT, ...]]
"""Returns the needs of a request. Raises ``Refused`` and ``RemoteProtocolError`` for a body that
cannot be read."""
Parts = Callable[[Frame], Iterator[tuple[NeedT, ...]]]
"""Iterates over the needs of a request, as many at once as one turn of the loop takes. The first
ones are none: what it does until then, reading the body, takes a turn. Raises as ``Reader``."""
NeedOf = Callable[[Touch, Kind], Callable[[str], tuple[NeedT, ...]]]
"""Returns the function from the name of an object, of a kind that the touch names, to the need of
it, or to none where it is free."""
KeysNeedOf = Callable[[Touch], Callable[[KeySpan], NeedT]]
"""Returns the function from keys of a namespace to the need of them."""


def keeps_offsets(touch: Touch) -> bool:
    """Return whether a topic is named for the offsets that are kept under its name."""
    return isinstance(touch.source, Field) and touch.source.names_progress


def readers(need_of: NeedOf[NeedT], keys_need_of: KeysNeedOf[NeedT]) -> dict[int, Reader[NeedT]]:
    """Return the readers of all requests that declare what they touch, by code."""
    return {
        # The handler asks for the right to what it finds.
        code: _joined(
            [
                _reader(one, need_of, keys_need_of)
                for one in spec.touches
                if not isinstance(one.source, Found)
            ]
        )
        for code, spec in REQUESTS.items()
        if spec.touches
    }


@final
@dataclass(frozen=True, slots=True)
class BodyReader(Generic[NeedT]):
    """The reader of requests whose bodies may name very much."""

    whole: Reader[NeedT]
    parts: Parts[NeedT]
    long_bytes: int
    """The bytes of a body from which on it is read in parts."""

    def __call__(self, frame: Frame) -> tuple[NeedT, ...]:
        return self.whole(frame)


def parts_of(read: Reader[NeedT], frame: Frame) -> Iterator[tuple[NeedT, ...]] | None:
    """Return the needs of a request in parts, of which each is for a turn of the loop; None where
    they are few."""
    if isinstance(read, BodyReader) and len(frame.body) >= read.long_bytes:
        return read.parts(frame)
    return None


@final
@dataclass(frozen=True, slots=True)
class _OneName(Generic[NeedT]):
    """The reader of a field that is a name; hot requests have one or two of them, and get a plain
    function."""

    field: str
    need_of: Callable[[str], tuple[NeedT, ...]]
    absent: tuple[NeedT, ...]

    def alone(self) -> Reader[NeedT]:
        """Return the reader of this field as a function."""
        field, need_of, absent = self.field, self.need_of, self.absent

        def read(frame: Frame) -> tuple[NeedT, ...]:
            name = frame.fields.get(field)
            return need_of(name) if name else absent

        return read

    def and_then(self, other: "_OneName[NeedT]") -> Reader[NeedT]:
        """Return the reader of both fields."""
        field, need_of, absent = self.field, self.need_of, self.absent
        field2, need_of2, absent2 = other.field, other.need_of, other.absent

        def read(frame: Frame) -> tuple[NeedT, ...]:
            fields = frame.fields
            name, name2 = fields.get(field), fields.get(field2)
            needs = need_of(name) if name else absent
            return needs + (need_of2(name2) if name2 else absent2)

        return read


def _joined(parts: list[Reader[NeedT] | _OneName[NeedT]]) -> Reader[NeedT]:
    if len(parts) == 2:
        first, second = parts
        if isinstance(first, _OneName) and isinstance(second, _OneName):
            return first.and_then(second)
    reads = [part.alone() if isinstance(part, _OneName) else part for part in parts]
    if len(reads) == 1:
        return reads[0]

    def whole(frame: Frame) -> tuple[NeedT, ...]:
        return tuple(need for read in reads for need in read(frame))

    bodies = [one.long_bytes for one in reads if isinstance(one, BodyReader)]
    return BodyReader(whole, partial(_all_parts, reads), min(bodies)) if bodies else whole


def _all_parts(reads: list[Reader[NeedT]], frame: Frame) -> Iterator[tuple[NeedT, ...]]:
    for read in reads:
        if isinstance(read, BodyReader):
            yield from read.parts(frame)
        else:
            yield read(frame)


def _reader(
    touch: Touch, need_of: NeedOf[NeedT], keys_need_of: KeysNeedOf[NeedT]
) -> Reader[NeedT] | _OneName[NeedT]:
    source = touch.source
    whole = need_of(touch, Kind.CLUSTER)("")
    if isinstance(source, Field):
        if source.retry_group:
            return _of_sends(touch, source, need_of)
        need = need_of(touch, touch.kind)
        return _of_field(source, _of_progress(need) if source.names_progress else need, whole)
    if isinstance(source, InBody):
        return _of_body(source, {kind: need_of(touch, kind) for kind in (Kind.GROUP, Kind.TOPIC)})
    if isinstance(source, Keys):
        return _of_keys(source, keys_need_of(touch), whole)
    assert isinstance(source, Whole), source
    return lambda frame: whole


def _of_progress(
    need_of: Callable[[str], tuple[NeedT, ...]],
) -> Callable[[str], tuple[NeedT, ...]]:
    """Return a function that also takes the name under which a topic's progress is kept."""

    def need_of_offsets(name: str) -> tuple[NeedT, ...]:
        if name.startswith(PROGRESS_PREFIX) and (progress := parse_progress_topic(name)):
            name = progress.topic
        return need_of(name)

    return need_of_offsets


def _of_field(
    source: Field, need_of: Callable[[str], tuple[NeedT, ...]], whole: tuple[NeedT, ...]
) -> Reader[NeedT] | _OneName[NeedT]:
    field, prefix, spared, names_in = source.name, source.prefix, source.spared, source.names
    absent = {
        Absent.INVALID: need_of(prefix + source.default),
        Absent.NOTHING: (),
        Absent.EVERYTHING: whole,
    }[source.absent]
    if not (source.separator or prefix or spared):
        return _OneName(field, need_of, absent)

    def read(frame: Frame) -> tuple[NeedT, ...]:
        names = names_in(frame.fields.get(field, ""))
        if not names:
            return absent
        return tuple(
            need
            for name in names
            if not (spared and name.endswith(spared))
            for need in need_of(prefix + name)
        )

    return read


def _of_sends(touch: Touch, source: Field, need_of: NeedOf[NeedT]) -> Reader[NeedT]:
    field, group_field, topic_need = source.name, source.retry_group, need_of(touch, Kind.TOPIC)
    own = Touch(Kind.GROUP, source, Right.READ, (Action.SUB,))
    group_need, absent = need_of(own, Kind.GROUP), topic_need("")

    def read(frame: Frame) -> tuple[NeedT, ...]:
        fields = frame.fields
        topic = fields.get(field)
        if not topic:
            return absent
        if topic.startswith(RETRY_PREFIX) and (group := fields.get(group_field)):
            return group_need(group) + topic_need(topic)
        return topic_need(topic)

    return read


def _of_body(
    source: InBody, need_of: Mapping[Kind, Callable[[str], tuple[NeedT, ...]]]
) -> Reader[NeedT]:
    names_in = source.read

    def parts(frame: Frame) -> Iterator[tuple[NeedT, ...]]:
        check_body(frame, is_json=True)
        names = list(dict.fromkeys(names_in(frame.body)))
        yield ()
        for some in for_turns(names):
            yield tuple(need for kind, name in some for need in need_of[kind](name))

    def whole(frame: Frame) -> tuple[NeedT, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(parts(frame))))

    return BodyReader(whole, parts, LONG_NAMES_BYTES)


def _of_keys(
    source: Keys, need_of: Callable[[KeySpan], NeedT], whole: tuple[NeedT, ...]
) -> Reader[NeedT]:
    keys_in, or_all = source.read, source.or_all

    def spans(frame: Frame) -> list[KeySpan]:
        try:
            return list(dict.fromkeys(keys_in(frame.fields, frame.body)))
        except RemoteProtocolError as error:  # as the handler would, for a sender with all rights
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error

    def read(frame: Frame) -> tuple[NeedT, ...]:
        if or_all and not frame.fields.get(or_all):
            return whole
        return tuple(map(need_of, spans(frame)))

    def parts(frame: Frame) -> Iterator[tuple[NeedT, ...]]:
        if or_all and not frame.fields.get(or_all):
            yield whole
            return
        named = spans(frame)
        yield ()
        for some in for_turns(named):
            yield tuple(map(need_of, some))

    return BodyReader(read, parts, LONG_KEYS_BYTES)
