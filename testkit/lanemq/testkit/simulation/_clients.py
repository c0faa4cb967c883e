"""The users of a simulated cluster: senders that number what they send, consumers that note it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, index_of, logical_broker_number

from ._ledger import Acknowledged, Delivered, Ledger
from ._network import Network
from ._processes import clock_ms

TOPIC: Final = "simulated"
GROUPS: Final = ("concurrent", "orderly", "old-concurrent", "old-orderly")
"""The members of the old ones know nothing of logical queues."""
ORDERLY: Final = tuple(group for group in GROUPS if group.endswith("orderly"))
PAUSE_MEAN_S: Final = 0.1
DELAYED_SHARE: Final = 0.1
"""The share of messages that are held back for some seconds."""
DELAY_LEVELS: Final = (1, 2)
SEEN_AT: Final = 3
"""Number of brokers at which older clients see the logical queues; as many listeners stand for
them."""
WORK_MEAN_S: Final = 0.005
"""Mean time that an orderly listener works on a message; nobody else may, meanwhile."""
QUICK: Final = ClientOptions(heartbeat_interval_s=5.0, route_refresh_s=5.0, call_timeout_s=2.0)
OLD: Final = replace(QUICK, logical_queues=False)
"""Options of a client that knows nothing of logical queues."""

NamedAs = Callable[[MessageQueue], MessageQueue]
"""Returns the queue of the ledger that a client knows as another one."""


def logical(queue: MessageQueue, options: ClientOptions) -> MessageQueue:
    """Return the logical queue that a client of ``options`` knows as ``queue``; any other as it
    is."""
    number = logical_broker_number(queue.broker_name)
    if number is None or options.logical_queues:
        return queue
    index = index_of(number, queue.queue_id, SEEN_AT)
    return MessageQueue(queue.topic, LOGICAL_QUEUE_BROKER, index)


def client_host(number: int) -> str:
    return f"10.0.9.{number}"


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
        count: int | None = None,
        *,
        topic: str = TOPIC,
        place: NamedAs | None = None,
        pause_mean_s: float = PAUSE_MEAN_S,
    ) -> None:
        """``count`` is how many it sends; None for as many as there is time for. Without ``place``
        queues are the logical ones."""
        self.name = name
        self._pause_mean_s = pause_mean_s
        self._topic = topic
        self._place = place or partial(logical, options=options)
        self._count = count
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
            while not self.enough and number != self._count:
                await trio.sleep(self._rng.expovariate(1 / self._pause_mean_s))
                message = Message(
                    topic=self._topic,
                    body=f"{self.name} {number}".encode(),
                    delay_level=self._delay_level(),
                )
                try:
                    queues = sorted(await producer.publish_queues(self._topic))
                    queue = queues[number % len(queues)]
                    result = await producer.send(message, queue=queue)
                except LanemqError as error:
                    self._ledger.failed(error)  # it may be stored or not
                else:
                    # A delayed message has no place before it is due.
                    offset = -1 if message.is_delayed else result.queue_offset
                    place = self._place(result.queue), offset
                    self._ledger.acknowledged.append(Acknowledged(self.name, number, *place))
                number += 1

    def _delay_level(self) -> int:
        is_delayed = self._rng.random() < DELAYED_SHARE
        return self._rng.choice(DELAY_LEVELS) if is_delayed else 0


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
        consume_from: ConsumeFrom = ConsumeFrom.FIRST_OFFSET,
        topic: str = TOPIC,
        place: NamedAs | None = None,
    ) -> None:
        """Without ``place`` queues are the logical ones."""
        self.group = group
        self._topic = topic
        self._place = place or partial(logical, options=options)
        self._options = options
        self._host = host
        self._network = network
        self._name_servers = name_servers
        self._ledger = ledger
        self._is_orderly = is_orderly
        self._consume_from = consume_from
        self._consumer: PushConsumer | None = None

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
            subscriptions={self._topic: "*"},
            listener=listener,
            options=PushOptions(
                consume_from=self._consume_from,
                offset_persist_interval_s=1.0,
                client=self._options,
            ),
            dial=self._network.dialer(self._host),
            clock_ms=clock_ms,
        ) as self._consumer:
            await trio.sleep_forever()

    async def _note(self, messages: Sequence[ReceivedMessage]) -> Outcome:
        for message in messages:
            sender, number = message.body.decode().rsplit(" ", 1)
            place = self._place(message.queue), message.queue_offset
            self._ledger.deliver(self.group, Delivered(sender, int(number), *place))
            if self._is_orderly:
                has_lock = partial(self._has_lock, message.queue)
                with self._ledger.works_on(self.group, place[0], has_lock):
                    await trio.sleep(WORK_MEAN_S)
        return Outcome.SUCCESS

    def _has_lock(self, queue: MessageQueue) -> bool:
        """Return whether its consumer may hand out messages of a queue; while it opens, it may."""
        consumer = self._consumer
        return consumer is None or consumer._core.rebalance._ownership.owns(queue)
