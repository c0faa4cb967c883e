"""Producers that send to a logical queue without a pause, also in failures, and their results."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from .._errors import CommandRefused
from ..cells._consumers import Puller
from ..cells._producers import Producer
from ..clients._messages import Outgoing
from ..servers._waiting import until
from ._bench import JAVA

PAUSE_S: Final = 0.005
"""Pause between a producer's sends: some producers shall wait for no answer when a broker dies.
Java's client notices such a death at its own time-out only, where all it had sent had been read."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a client's send."""

    body: bytes
    begun_s: float
    ended_s: float
    offset: int | None
    """The message's offset, -1 where the client does not know it; None if the message was
    refused."""
    refusal: str = ""

    def meets(self, spans: Sequence[tuple[float, float]]) -> bool:
        return any(self.begun_s < end and begin < self.ended_s for begin, end in spans)


@dataclass
class Load:
    """Producers that number their messages, and send each until it is acknowledged."""

    topic: str
    attempts: list[Attempt] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    """Times when a broker was away, or could have been for all that a client knew."""
    moves: list[tuple[float, float]] = field(default_factory=list)
    """Times of migrations: routes that are fetched between two steps do not have all offsets."""
    is_over: bool = False

    @property
    def acknowledged(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.offset is not None]

    @property
    def refused(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.offset is None]

    async def produce(self, producer: Producer, name: int) -> None:
        number = 0
        while not self.is_over:
            body, begun_s = b"%d:%d" % (name, number), trio.current_time()
            try:
                sent = await producer.send(Outgoing(self.topic, body), queue_id=0)
            except CommandRefused as error:
                now_s = trio.current_time()
                self.attempts.append(Attempt(body, begun_s, now_s, None, str(error)))
                await trio.sleep(0.1)  # in an outage, not as often as it can
                continue
            self.attempts.append(Attempt(body, begun_s, trio.current_time(), sent.queue_offset))
            number += 1
            await trio.sleep(PAUSE_S)

    async def more(self, count: int = 10, *, least_offset: int = -1) -> None:
        """Wait until ``count`` further messages are acknowledged, with their offsets if wanted."""
        known, begun_s = len(self.attempts), trio.current_time()

        async def come() -> bool:
            offsets = [one.offset for one in self.attempts[known:] if one.begun_s >= begun_s]
            return len([o for o in offsets if o is not None and o >= least_offset]) >= count

        await until(come)

    def check(self, stored: list[bytes], client: str, *, begin: int = 0) -> None:
        """Check that all acknowledged messages are in the queue, where they should be, and in
        order.

        Duplicates are of messages under way while a broker died: their senders could not know.
        """
        copies = Counter(stored[begin:])
        for attempt in self.acknowledged:
            assert copies[attempt.body], attempt
            if attempt.offset is not None and attempt.offset >= 0:
                assert stored[attempt.offset] == attempt.body, attempt
            elif client != JAVA:  # which looks at its route now and then only
                assert attempt.meets(self.outages + self.moves), attempt
        doubtful = {attempt.body for attempt in self.attempts if attempt.meets(self.outages)}
        assert {body for body, count in copies.items() if count > 1} <= doubtful
        assert copies.keys() <= {attempt.body for attempt in self.attempts}
        for attempt in self.refused:
            assert attempt.meets(self.outages) or is_redirect(attempt, client), attempt
        for name in {body.split(b":")[0] for body in copies}:
            numbers = [int(b.split(b":")[1]) for b in stored[begin:] if b.startswith(name + b":")]
            assert numbers == sorted(numbers), name


def is_redirect(attempt: Attempt, client: str) -> bool:
    """Return whether the Java client was redirected: it repeats the first of the sends that are."""
    return client == JAVA and "redirect" in attempt.refusal


@asynccontextmanager
async def loaded(producer: Producer, topic: str, *, producers: int = 8) -> AsyncIterator[Load]:
    """Send to logical queue 0 all the time."""
    load = Load(topic)
    async with trio.open_nursery() as nursery:
        for name in range(producers):
            nursery.start_soon(load.produce, producer, name)
        await load.more()
        yield load
        load.is_over = True


async def whole(puller: Puller, least: int) -> list[bytes]:
    """Read logical queue 0: all of it, so much at least, without holes, and no offset twice."""

    async def shows_all() -> bool:  # a client may have to look at its route again
        return await puller.offset("max", 0) >= least

    await until(shows_all)
    end, found = await puller.offset("max", 0), list[bytes]()
    with trio.fail_after(180):
        while len(found) < end:
            pulled = await puller.pull(0, len(found))
            offsets = [message.queue_offset for message in pulled.messages]
            assert offsets == list(range(len(found), pulled.next_offset)), pulled
            found += [message.body for message in pulled.messages]
    assert len(found) == end
    return found
