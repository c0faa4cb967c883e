"""The users of a simulated cluster: senders that number what they send, consumers that note it."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    OrderlyListener,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

from ._ledger import Acknowledged, Delivered, Ledger
from ._network import Network
from ._processes import clock_ms

TOPIC: Final = "simulated"
PAUSE_MEAN_S: Final = 0.05
QUICK: Final = ClientOptions(heartbeat_interval_s=5.0, route_refresh_s=5.0, call_timeout_s=2.0)
OLD: Final = replace(QUICK, logical_queues=False)
"""Options of a client that knows nothing of logical queues."""


@final
class Sender:
    """Sends number after number to one queue after the other, each when the last has ended."""

    def __init__(
        self,
        name: str,
        host: str,
        network: Network,
        name_servers: str,
        ledger: Ledger,
        rng: Random,
        options: ClientOptions,
    ) -> None:
        self.name = name
        self._options = options
        self._host = host
        self._network = network
        self._name_servers = name_servers
        self._ledger = ledger
        self._rng = rng
        self.enough = False
        """Set to let ``run`` come to its end."""

    async def run(self) -> None:
        """Send until there is enough."""
        options = ProducerOptions(send_timeout_s=3.0, retries=2, client=self._options)
        async with open_producer(
            self.name,
            name_servers=self._name_servers,
            options=options,
            dial=self._network.dialer(self._host),
            clock_ms=clock_ms,
        ) as producer:
            number = 0
            while not self.enough:
                await trio.sleep(self._rng.expovariate(1 / PAUSE_MEAN_S))
                message = Message(topic=TOPIC, body=f"{self.name} {number}".encode())
                try:
                    queues = sorted(await producer.publish_queues(TOPIC))
                    queue = queues[number % len(queues)]
                    result = await producer.send(message, queue=queue)
                except LanemqError:
                    self._ledger.failed_sends += 1  # it may be stored or not
                else:
                    self._ledger.acknowledged.append(
                        Acknowledged(self.name, number, result.queue, result.queue_offset)
                    )
                number += 1


@final
class Reader:
    """A member of a consumer group."""

    def __init__(
        self,
        group: str,
        host: str,
        network: Network,
        name_servers: str,
        ledger: Ledger,
        options: ClientOptions,
        *,
        is_orderly: bool,
    ) -> None:
        self.group = group
        self._options = options
        self._host = host
        self._network = network
        self._name_servers = name_servers
        self._ledger = ledger
        self._is_orderly = is_orderly

    async def run(self) -> None:
        """Consume until cancelled."""
        listener: OrderlyListener | ConcurrentListener
        if self._is_orderly:
            listener = OrderlyListener(self._note)
        else:
            listener = ConcurrentListener(self._note)
        async with open_push_consumer(
            self.group,
            name_servers=self._name_servers,
            subscriptions={TOPIC: "*"},
            listener=listener,
            options=PushOptions(
                consume_from=ConsumeFrom.FIRST_OFFSET,
                offset_persist_interval_s=1.0,
                client=self._options,
            ),
            dial=self._network.dialer(self._host),
            clock_ms=clock_ms,
        ):
            await trio.sleep_forever()

    async def _note(self, messages: Sequence[ReceivedMessage]) -> Outcome:
        for message in messages:
            sender, number = message.body.decode().rsplit(" ", 1)
            self._ledger.deliver(
                self.group, Delivered(sender, int(number), message.queue, message.queue_offset)
            )
        return Outcome.SUCCESS
