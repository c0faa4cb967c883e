"""The listener's view of a topic: its logical queues, and the addresses of their brokers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from lanemq.wire import VIRTUAL_BROKERS_MAX, ResponseCode
from lanemq.wire.bodies import MASTER_ID, RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    LOGICAL_BROKERS_MEMBER,
    LOGICAL_QUEUE_BROKER,
    Chain,
    LogicalQueues,
    Redirect,
    Segment,
    SegmentState,
)

SEGMENT_BYTES: Final = 200
"""Bytes of a segment in an answer, about."""


@final
@dataclass(frozen=True, slots=True)
class TopicView:
    """The known state of a topic with logical queues."""

    queues: LogicalQueues
    addresses: Mapping[str, str]
    """Broker name -> address of the master."""
    brokers: int = 1
    """Number of brokers at which older clients see the topic."""

    @property
    def size_bytes(self) -> int:
        """The length of an answer from which it would be read, about."""
        return SEGMENT_BYTES * len(self.queues)

    def chain(self, index: int) -> Chain | None:
        """Return the segments of a logical queue; None for one that does not exist."""
        return self.queues.get(index)

    def with_redirect(self, redirect: Redirect) -> "TopicView":
        """Return the view with the two segments of a redirect."""
        return self.with_segments(redirect.current, redirect.following)

    def with_segments(self, *segments: Segment) -> "TopicView":
        """Return the view with further segments, or with later states of known ones."""
        return replace(self, queues=self.queues.put_segments(*segments)) if segments else self

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker, from the name server or from the redirect that named
        it."""
        known = self.addresses.get(broker_name)
        if known is None:
            hints = (s.broker_address for s in self.queues.segments if s.broker_name == broker_name)
            known = next(filter(None, hints), None)
        return known


def addresses_in(view: TopicView, segments: Iterable[Segment]) -> dict[str, str | None]:
    """Return the addresses of the brokers of segments, each as ``TopicView.address``."""
    names = dict.fromkeys(segment.broker_name for segment in segments)
    hints = {
        s.broker_name: s.broker_address for s in view.queues.segments[::-1] if s.broker_address
    }
    return {name: view.addresses.get(name) or hints.get(name) for name in names}


def read_view(answer: Frame, *, brokers: int = 1) -> TopicView | None:
    """Read the view in a name server's answer; None for a topic without logical queues.

    ``brokers`` is their number if the name server does not know it, as after its start.
    """
    if answer.code != ResponseCode.SUCCESS:
        return None
    route = RouteData.decode(answer.body)
    queues = LogicalQueues.of_route(route.extra)
    if queues is None:
        return None
    addresses = {
        broker.broker_name: broker.broker_addrs[MASTER_ID]
        for broker in route.broker_datas
        if MASTER_ID in broker.broker_addrs and broker.broker_name != LOGICAL_QUEUE_BROKER
    }
    told = route.extra.get(LOGICAL_BROKERS_MEMBER)
    if isinstance(told, int) and 0 < told <= VIRTUAL_BROKERS_MAX:
        brokers = told
    return TopicView(queues, addresses, brokers)


def missing_in(told: TopicView | None, known: TopicView | None) -> list[Segment]:
    """Return the known segments that matter to readers or senders and that ``told`` lacks.

    Name servers leave out a destination without a place on purpose, and nobody misses a segment
    without messages.
    """
    listed = {segment.key for segment in told.queues.segments} if told is not None else set()
    segments = known.queues.segments if known is not None else ()
    return [segment for segment in segments if is_lasting(segment) and segment.key not in listed]


def is_lasting(segment: Segment) -> bool:
    """Return whether a segment has a place, and messages or room for them."""
    is_over = segment.state is SegmentState.EXPIRED or segment.is_empty
    return segment.delta >= 0 and not is_over
