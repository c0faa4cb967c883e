"""The time for which a queue is not written while it moves behind a proxy.

Two Apache brokers and one proxy with ``--moves``. A producer of the SDK sends one message after
another to a queue, which an orderly consumer reads, and the queue moves to and fro. The pause of a
move is the longest that a send took while the command ran.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    MessageQueue,
    OrderlyListener,
    Producer,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin

from .servers._proxy import site
from .servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER, PATIENT_S

REST_S: Final = 2.0
"""Seconds between moves."""
QUEUE: Final = 0


@final
class Pauses(msgspec.Struct, frozen=True):
    """The pauses, in seconds: the JSON of ``lanemq-compat pauses``."""

    server: str
    first: list[float]
    """Of the first moves of queues."""
    later: list[float]
    sends: int
    """Sends while no queue moved."""
    usual_p50: float
    """The median of these."""
    usual_p99: float

    def line(self, name: str, pauses: Sequence[float]) -> str:
        """Return some pauses in one line."""
        found = [f"{at(pauses, share) * 1000:.0f}" for share in (0.5, 0.99)]
        return (
            f"{name}: {len(pauses)} moves, pauses 50th {found[0]} ms, 99th {found[1]} ms, "
            f"longest {max(pauses, default=0) * 1000:.0f} ms"
        )


def at(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of all is; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class _Sends:
    """A producer that sends to one queue, and how long each send took."""

    def __init__(self) -> None:
        self.took: list[float] = []

    async def run(self, producer: Producer, queue: MessageQueue) -> None:
        while True:
            begun_s = trio.current_time()
            await producer.send(Message(topic=queue.topic, body=b"x"), queue=queue)
            self.took.append(trio.current_time() - begun_s)


async def measure(
    version: str, topics: int, moves: int, folder: Path, say: Callable[[str], None]
) -> Pauses:
    """Move the first queue of each of some topics so many times. Raises ``CompatError``."""
    first: list[float] = []
    later: list[float] = []
    usual: list[float] = []
    async with site(folder, settle_s=0, moves=True, version=version) as proxied:
        address = proxied.addresses[0]
        async with open_admin(name_servers=address, timeout_s=PATIENT_S) as admin:
            names = sorted((await admin.cluster()).broker_addr_table)
            for number in range(topics):
                topic = f"pauses-{number}"
                await proxied.upstream.control.create_topic(topic, 1)
                found = await _of_topic(admin, address, topic, names, moves, usual)
                first += found[:1]
                later += found[1:]
                say(f"{topic}: {', '.join(f'{one * 1000:.0f} ms' for one in found)}")
    return Pauses(f"apache-{version}", first, later, len(usual), at(usual, 0.5), at(usual, 0.99))


async def _of_topic(
    admin: AdminClient,
    address: str,
    topic: str,
    names: Sequence[str],
    moves: int,
    usual: list[float],
) -> list[float]:
    async def read(_: Sequence[ReceivedMessage]) -> None:
        """Read on."""

    sends, found = _Sends(), list[float]()
    async with (
        open_producer("pauses", name_servers=address, options=PATIENT_PRODUCER) as producer,
        open_push_consumer(
            f"{topic}-group",
            name_servers=address,
            subscriptions={topic: "*"},
            listener=OrderlyListener(read),
            options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=PATIENT_CLIENT),
        ),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(sends.run, producer, MessageQueue(topic, names[QUEUE], 0))
        for number in range(moves):
            await trio.sleep(REST_S)
            usual += sends.took
            sends.took.clear()
            target = names[(number + 1) % len(names)]
            while (await admin.move_queue(address, topic, QUEUE, target)).state == "moving":
                pass
            begun = len(sends.took)
            while len(sends.took) <= begun:  # noqa: ASYNC110 - the one that waited, too
                await trio.sleep(0.01)
            found.append(max(sends.took))
            sends.took.clear()
        nursery.cancel_scope.cancel()
    return found
