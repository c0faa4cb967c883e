"""Transactions of a simulated application, and what it has decided about them."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple, final

import trio

from lanemq.sdk import (
    LanemqError,
    Message,
    ProducerOptions,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
    open_transaction_producer,
)
from lanemq.wire import SystemGroup, SystemTopic
from lanemq.wire.bodies import MessageQueue

from ._clients import QUICK, TOPIC
from ._ledger import Acknowledged, Ledger, Violated
from ._network import Network
from ._processes import BrokerProcess, clock_ms

GROUP: Final = "committers"
PAUSE_MEAN_S: Final = 0.3
WORK_MEAN_S: Final = 0.5
"""Mean time that a local transaction takes: queues move meanwhile, and brokers die."""
ROLLBACK_SHARE: Final = 0.3
LATER_SHARE: Final = 0.3
"""The share decided after the producer has said that it does not know yet: brokers ask."""
LATER_MEAN_S: Final = 10.0
CHECK_MS: Final = 5_000
"""The time between two rounds of a broker's questions."""
LATER_MAX_S: Final = 30.0
"""Long before a broker has asked so often that it puts the half message aside."""
ENDING_S: Final = 60.0
"""Seconds for brokers to hear what everybody knows by then: less than until they put half messages
aside."""

Key = tuple[str, int]
"""Sender and number."""


class _Decision(NamedTuple):
    is_commit: bool
    at_s: float
    """Time from when on the application says so."""


@final
class Decisions:
    """The database of the application, in which all members of the group look."""

    def __init__(self, ledger: Ledger) -> None:
        self.committed = 0
        self.rolled_back = 0
        self.asked = 0
        """Questions of brokers that got an answer."""
        self._ledger = ledger
        self._made: dict[Key, _Decision] = {}
        self._working: set[Key] = set()

    def begin(self, key: Key) -> None:
        """Note that a half message is about to be sent."""
        self._working.add(key)

    def make(self, key: Key, *, is_commit: bool, at_s: float) -> TransactionState:
        """Decide, and return what the producer says of it now."""
        self._working.discard(key)
        self._made[key] = _Decision(is_commit, at_s)
        if is_commit:
            self.committed += 1
            nowhere = MessageQueue(TOPIC, "", -1)  # it has no place before it is committed
            self._ledger.acknowledged.append(Acknowledged(*key, nowhere, -1))
        else:
            self.rolled_back += 1
            self._ledger.rolled_back.add(key)
        return self.state(key)

    def state(self, key: Key) -> TransactionState:
        """Return the application's decision on a transaction."""
        made = self._made.get(key)
        if made is None or trio.current_time() < made.at_s:
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if made.is_commit else TransactionState.ROLLBACK

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Answer a broker's question."""
        self.asked += 1
        sender, number = message.body.decode().rsplit(" ", 1)
        return self.state((sender, int(number)))

    async def all_made(self) -> None:
        """Wait until the application knows of each of them what becomes of it."""
        assert not self._working
        await trio.sleep_until(max((made.at_s for made in self._made.values()), default=0))


@final
class Committer:
    """Sends one transaction after the other, and answers what brokers ask, until cancelled."""

    def __init__(
        self,
        name: str,
        host: str,
        network: Network,
        name_servers: str,
        decisions: Decisions,
        rng: Random,
    ) -> None:
        self.name = name
        self._host = host
        self._network = network
        self._name_servers = name_servers
        self._decisions = decisions
        self._rng = rng
        self.enough = False
        """Set to have it begin no more of them."""
        self.done = trio.Event()
        """Set when the last one has been decided, or is going to be without it."""

    async def run(self) -> None:
        """Send until there is enough, and answer until cancelled."""
        options = ProducerOptions(send_timeout_s=3.0, retries=2, client=QUICK)
        async with open_transaction_producer(
            GROUP,
            check=self._decisions.check,
            name_servers=self._name_servers,
            topics=[TOPIC],
            options=options,
            dial=self._network.dialer(self._host),
            clock_ms=clock_ms,
        ) as producer:
            number = 0
            while not self.enough:
                await trio.sleep(self._rng.expovariate(1 / PAUSE_MEAN_S))
                await self._send(producer, number)
                number += 1
            self.done.set()
            await trio.sleep_forever()

    async def _send(self, producer: TransactionProducer, number: int) -> None:
        key = self.name, number
        is_commit = self._rng.random() >= ROLLBACK_SHARE
        work_s = self._rng.expovariate(1 / WORK_MEAN_S)
        is_later = self._rng.random() < LATER_SHARE
        later_s = min(self._rng.expovariate(1 / LATER_MEAN_S), LATER_MAX_S) if is_later else 0.0
        is_stored = False

        async def execute(message: Message, transaction_id: str) -> TransactionState:
            nonlocal is_stored
            is_stored = True
            await trio.sleep(work_s)
            at_s = trio.current_time() + later_s
            return self._decisions.make(key, is_commit=is_commit, at_s=at_s)

        self._decisions.begin(key)
        message = Message(topic=TOPIC, body=f"{self.name} {number}".encode())
        try:
            await producer.send_in_transaction(message, execute)
        except LanemqError:
            assert not is_stored, "what happens to the end is not raised"
        if not is_stored:  # it may be, or not: nothing was done for it
            self._decisions.make(key, is_commit=False, at_s=trio.current_time())


async def all_ended(brokers: Sequence[BrokerProcess]) -> None:
    """Wait until no broker has a half message that waits for its end. Raises ``Violated``, also
    where one was put aside.

    Everybody who decides is there, and has.
    """
    for broker in brokers:
        store = broker.running.context.store
        if store.bounds(SystemTopic.TRANSACTION_CHECK_MAX_TIME, 0)[1]:
            raise Violated(f"{broker.name} has put half messages aside, though they were decided")
    waiting: list[str] = []
    with trio.move_on_after(ENDING_S):
        while waiting := list(filter(None, map(_waiting, brokers))):  # noqa: ASYNC110 - nothing would say so
            await trio.sleep(CHECK_MS / 1000)
        return
    raise Violated(f"half messages whose ends are never told: {'; '.join(waiting)}")


def _waiting(broker: BrokerProcess) -> str:
    """Return a description of the undecided transactions that a broker keeps; "" without any."""
    store = broker.running.context.store
    end = store.bounds(SystemTopic.TRANSACTION_HALF, 0)[1]
    offsets = store.tables.consumer_offsets
    begin = offsets.get(SystemGroup.TRANSACTION, SystemTopic.TRANSACTION_HALF, 0) or 0
    return f"{broker.name} has {end - begin}" if begin < end else ""
