"""A mixed load through proxies in front of Apache brokers, of which one is killed every minute.

Two brokers of 5.3.3 and two proxies. Clients of the SDK send without order and in the order of each
queue; members of their groups come through either proxy, or go direct. Brokers and proxies are
killed (SIGKILL) in turn, and started again a few seconds later. What was acknowledged has to be
handled in the end, at least once, and the first time in the order of its queue where that is asked.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    MessageQueue,
    OrderlyListener,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

from .servers._proxy import site
from .servers._waiting import PATIENT_CLIENT

PROXIES: Final = 2
QUEUES: Final = 4
SENDERS: Final = 4
"""Tasks that send without order, and as many that keep one."""
PAUSE_S: Final = 0.02
SETTLED_S: Final = 300.0
"""Seconds after the load in which everything has to be handled."""
ANY: Final = "SoakAny"
ORDERED: Final = "SoakOrdered"


@final
@dataclass(frozen=True, slots=True)
class SoakPlan:
    """A plan: the load goes on for so long, with a kill every so many seconds."""

    seconds: float = 1800.0
    every_s: float = 60.0
    """Seconds from one kill to the next."""
    down_s: float = 5.0
    """Seconds from a kill to the start of the same server."""


@final
class SoakResult(msgspec.Struct, frozen=True):
    """The outcome; the JSON of ``lanemq-compat soak``."""

    seconds: float
    kills: list[str]
    """The servers that were killed, in order."""
    sent: int
    """Messages that were acknowledged."""
    refused: int
    """Sends that were not, after the retries of the SDK."""
    repeated: int
    """Messages that were handled more than once."""
    longest_pause_s: float
    """The longest time in which no send was acknowledged."""
    lost: list[str]
    """Messages that were acknowledged, and are not handled."""
    out_of_order: list[str]

    @property
    def is_good(self) -> bool:
        """True if nothing was lost, and order was kept."""
        return not (self.lost or self.out_of_order)


@final
class _Load:
    """The messages that were acknowledged, and those that were handled."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.refused = 0
        self.handled = Counter[bytes]()
        self.out_of_order: list[str] = []
        self.longest_pause_s = 0.0
        self.is_over = False
        self._last: dict[MessageQueue, int] = {}
        self._acknowledged_s = trio.current_time()

    @property
    def lost(self) -> list[bytes]:
        return sorted(self.sent - self.handled.keys())

    async def send(self, name_servers: str, topic: str, name: str) -> None:
        """Send numbered messages, one after another, until the load is over."""
        options = ProducerOptions(send_timeout_s=10.0, client=PATIENT_CLIENT)
        key = name if topic == ORDERED else None
        async with open_producer(
            f"soak-{name}", name_servers=name_servers, options=options
        ) as producer:
            number = 0
            while not self.is_over:
                body = f"{name} {number}".encode()
                number += 1
                try:
                    await producer.send(Message(topic=topic, body=body), queue_key=key)
                except LanemqError:
                    self.refused += 1
                    await trio.sleep(0.5)
                else:
                    self.sent.add(body)
                    now_s = trio.current_time()
                    self.longest_pause_s = max(self.longest_pause_s, now_s - self._acknowledged_s)
                    self._acknowledged_s = now_s
                await trio.sleep(PAUSE_S)

    async def handle(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            self.handled[message.body] += 1

    async def handle_in_order(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            queue, offset = message.queue, message.queue_offset
            is_first = not self.handled[message.body]
            if is_first and offset < self._last.get(queue, -1):
                self.out_of_order.append(f"{message.body!r} at {offset} of {queue}")
            self._last[queue] = max(offset, self._last.get(queue, -1))
            self.handled[message.body] += 1


async def soak(
    plan: SoakPlan, folder: Path, say: Callable[[str], None], *, seed: int | None = None
) -> SoakResult:
    """Run the load. Raises ``CompatError`` where a server cannot be started."""
    rng, kills, begun_s = random.Random(seed), list[str](), trio.current_time()
    async with site(folder, proxies=PROXIES) as at:
        load, brokers = _Load(), at.upstream.daemons[1:]
        for topic in (ANY, ORDERED):
            await at.upstream.control.create_topic(topic, QUEUES)
        async with AsyncExitStack() as members:
            for name_servers in (*at.addresses, at.upstream.name_server):
                for topic, listener in (
                    (ANY, ConcurrentListener(load.handle)),
                    (ORDERED, OrderlyListener(load.handle_in_order)),
                ):
                    await members.enter_async_context(
                        open_push_consumer(
                            f"soak-{topic}",
                            name_servers=name_servers,
                            subscriptions={topic: "*"},
                            listener=listener,
                            options=PushOptions(
                                consume_from=ConsumeFrom.FIRST_OFFSET, client=PATIENT_CLIENT
                            ),
                        )
                    )
            both = ";".join(at.addresses)
            # What a sender has under way when the load ends is acknowledged, or refused, before
            # anything is counted.
            async with trio.open_nursery() as senders:
                for number in range(SENDERS):
                    senders.start_soon(load.send, both, ANY, f"any-{number}")
                    senders.start_soon(load.send, both, ORDERED, f"ordered-{number}")
                end_s = trio.current_time() + plan.seconds
                turn = 0
                while trio.current_time() + plan.every_s <= end_s:
                    await trio.sleep(plan.every_s - plan.down_s)
                    victims = brokers if turn % 2 else at.proxies
                    victim = victims[turn // 2 % len(victims)] if turn < 4 else rng.choice(victims)
                    turn += 1
                    counted = f"{len(load.sent)} sent, {len(load.lost)} on the way"
                    say(f"{victim.title} is killed; {counted}")
                    kills.append(victim.title)
                    await victim.kill()
                    await trio.sleep(plan.down_s)
                    await victim.start()
                await trio.sleep(max(0.0, end_s - trio.current_time()))
                load.is_over = True
            with trio.move_on_after(SETTLED_S):
                while load.lost:  # noqa: ASYNC110 - many consumers
                    await trio.sleep(0.1)
        return SoakResult(
            seconds=round(trio.current_time() - begun_s, 1),
            kills=kills,
            sent=len(load.sent),
            refused=load.refused,
            repeated=sum(count > 1 for count in load.handled.values()),
            longest_pause_s=round(load.longest_pause_s, 2),
            lost=[body.decode() for body in load.lost],
            out_of_order=load.out_of_order,
        )
