"""A send reaches the end of its queue, however old the view and whichever brokers are down."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import (
    ROUNDS_MAX,
    Chain,
    Looked,
    LookForEnd,
    LookForPlace,
    NotReached,
    NotSent,
    Redirected,
    Segment,
    SegmentState,
    SendAsk,
    SendOutcome,
    SendReply,
    SendTo,
    Taken,
)

WRITE_ONLY = SegmentState.WRITE_ONLY


def chain_of(moves: int) -> Chain:
    """Return a queue that has moved so often, with a message at each broker."""
    segments = [Segment(MessageQueue("T", f"b{n}", 0), 0, n) for n in range(moves + 1)]
    return Chain(0, [*(one.sealed(1) for one in segments[:-1]), segments[-1]])


def as_known(truth: Chain, moves: int) -> Chain:
    """Return the chain as it was after its first moves."""
    last = truth[moves]
    opened = Segment(last.message_queue, 0, last.delta)
    return Chain(0, [*truth.segments[:moves], opened])


@dataclass
class Brokers:
    """Brokers that know what follows their segment, and a name server that knows all."""

    truth: Chain
    down: frozenset[str] = frozenset()
    is_told: bool = True
    """True if the name server has heard of all moves."""
    asked: list[str] = field(default_factory=list)

    def send(self, known: Chain, sending: SendTo) -> SendOutcome:
        conversation = sending.steps(known)
        try:
            step = next(conversation)
            while True:
                reply: SendReply
                match step:
                    case SendAsk(segment) if segment.broker_name in self.down:
                        self.asked.append(segment.broker_name)
                        reply = NotReached(is_down=True)
                    case SendAsk(segment):
                        self.asked.append(segment.broker_name)
                        here = self.truth.find(segment.key)
                        assert here is not None
                        at = self.truth.segments.index(here)
                        if here.is_sealed and at + 1 < len(self.truth):
                            # A broker knows where its queue went on, not where it is by now.
                            known = known.put(here, as_known(self.truth, at + 1)[at + 1])
                            reply = Redirected(known)
                        else:
                            reply = Taken()
                    case LookForEnd() | LookForPlace():
                        known = self.truth if self.is_told else known
                        reply = Looked(known)
                step = conversation.send(reply)
        except StopIteration as end:
            outcome: SendOutcome = end.value
            return outcome


@given(st.integers(0, 6), st.data())
def test_redirects_lead_to_the_open_end(moves: int, data: st.DataObject) -> None:
    known = data.draw(st.integers(0, moves))
    truth = chain_of(moves)
    brokers = Brokers(truth)
    outcome = brokers.send(as_known(truth, known), SendTo())
    if moves - known < ROUNDS_MAX:
        assert outcome == truth.tail
    else:
        assert outcome is NotSent.REDIRECTS
    assert len(brokers.asked) == min(moves - known + 1, ROUNDS_MAX)


@given(st.integers(0, 3), st.data())
def test_a_broker_that_is_down_is_asked_once_and_left_if_the_queue_has_moved(
    moves: int, data: st.DataObject
) -> None:
    known = data.draw(st.integers(0, moves))
    down = data.draw(st.frozensets(st.sampled_from([f"b{n}" for n in range(moves + 1)])))
    is_told = data.draw(st.booleans())
    truth = chain_of(moves)
    brokers = Brokers(truth, down, is_told)
    outcome = brokers.send(as_known(truth, known), SendTo())
    assert len(brokers.asked) == len(set(brokers.asked))
    path = [f"b{n}" for n in range(known, moves + 1)]
    if not down & set(path):
        assert outcome == truth.tail
    elif path[-1] in down or not is_told:
        assert outcome is NotSent.GAVE_UP
    else:
        assert outcome == truth.tail


def test_a_destination_takes_messages_while_its_source_is_down() -> None:
    """Its place is looked for once it has the message, unless nobody needs that."""
    source = Segment(MessageQueue("T", "b0", 0), 0, 0)
    target = Segment(MessageQueue("T", "b1", 0), 0, -1, WRITE_ONLY)
    placed = Chain(0, [source.sealed(7), target.with_delta(7)])
    brokers = Brokers(placed, frozenset({"b0"}))
    moving = Chain(0, [source, target])
    brokers.is_told = False
    assert brokers.send(moving, SendTo()) == target
    assert brokers.asked == ["b0", "b1"]
    brokers.is_told = True
    known_down = SendTo(is_away={"b0"}.__contains__)
    assert brokers.send(moving, known_down) == target.with_delta(7)
    assert brokers.asked[2:] == ["b1"], "a broker that is known to be down is not asked"
    assert brokers.send(moving, SendTo(is_away={"b0"}.__contains__, needs_place=False)) == target


def test_a_closed_queue_is_asked_for_only_by_those_who_want_to_know_more() -> None:
    closed = Chain(0, [Segment(MessageQueue("T", "b0", 0), 0, 0).sealed(3)])
    brokers = Brokers(closed)
    assert brokers.send(closed, SendTo()) is NotSent.NO_END
    assert not brokers.asked
    assert brokers.send(closed, SendTo(asks_closed_end=True)) == closed[0]
    assert brokers.asked == ["b0"]
