"""The part of the demo that consumes a queue in stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio
from rich.console import Console
from rich.table import Table

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    open_producer,
    open_push_consumer,
)

from ..servers._clusters import Cluster
from ..servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER

TOPIC: Final = "demo-stages"
STAGES: Final = (2, 3, 7)
HANDLING_S: Final = 0.1
"""The time that the handler takes for each message."""
CONSUME_S: Final = 60.0

Interval = tuple[int, float, float]
"""A message's number, and when its handler began and ended, in seconds."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The handlers that the demo saw run."""

    handled: tuple[Interval, ...]

    @property
    def took_s(self) -> float:
        """Seconds from the first handler's begin to the last one's end."""
        begins, ends = zip(*((begin, end) for _, begin, end in self.handled), strict=True)
        return max(ends) - min(begins) if begins else 0.0

    @property
    def verdict(self) -> str:
        """The word "kept", or what is wrong with the order of the stages."""
        if sorted(number for number, _, _ in self.handled) != list(range(sum(STAGES))):
            return f"{len(self.handled)} of {sum(STAGES)} messages"
        behind_s, first = 0.0, 0
        for size in STAGES:
            stage = [one for one in self.handled if first <= one[0] < first + size]
            if min(begin for _, begin, _ in stage) < behind_s:
                return f"message {first} and on began too early"
            behind_s, first = max(end for _, _, end in stage), first + size
        return "kept"


async def consume_in_stages(cluster: Cluster) -> Staged:
    """Send to one queue, and consume it in ``STAGES``."""
    await cluster.control.create_topic(TOPIC, 1)
    handled: list[Interval] = []
    done = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        begun_s = trio.current_time()
        await trio.sleep(HANDLING_S)
        handled.extend((int(one.body), begun_s, trio.current_time()) for one in messages)
        if len(handled) >= sum(STAGES):
            done.set()

    async with open_producer(
        "demo-stages", name_servers=cluster.name_server, options=PATIENT_PRODUCER
    ) as producer:
        for number in range(sum(STAGES)):
            await producer.send(Message(topic=TOPIC, body=b"%d" % number))
    async with open_push_consumer(
        "demo-stages-group",
        name_servers=cluster.name_server,
        subscriptions={TOPIC: "*"},
        listener=StagedConcurrentListener(handle, STAGES),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=PATIENT_CLIENT),
    ):
        with trio.move_on_after(CONSUME_S):
            await done.wait()
    return Staged(tuple(handled))


def show_staged(console: Console, staged: Staged) -> None:
    """Print the events as a table."""
    one_by_one_s = sum(STAGES) * HANDLING_S
    table = Table("a queue in stages", "Python SDK")
    table.add_row("sizes of the stages", ", ".join(map(str, STAGES)))
    table.add_row("handled in", f"{staged.took_s:.1f} s, one by one {one_by_one_s:.1f} s")
    table.add_row("order between stages", staged.verdict)
    console.print(table)
