"""The orders of all topics' queues, which all proxies of a cluster share.

They are keys and values over a topic of the cluster, changed by compare-and-set: so they are the
same at every proxy, and outlive all of them. A topic gets its order once its queues have stayed the
same for a while, since brokers come one by one when they start, and when a topic is created.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import RouteData

from ..kv import SNAPSHOTS, KeysUnavailable, KeyWatch, PartitionStatus, TooLong, UpstreamKeys
from ._growth import extended, why_not_kept
from ._order import (
    QueueOrder,
    SeenQueue,
    decode_behind,
    encode_behind,
    sorts_before_added,
)
from ._reasons import begin_again, say_added, unreadable, unseen
from ._route import OWN_PREFIX, has_order, may_have_order, queues_told, queues_written
from ._settling import SettlingTopics

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

NAMESPACE: Final = "queues"
LOG_PREFIX: Final = f"{OWN_PREFIX}PROXY_"
"""Begin of the names of the topics of the log, and of its snapshots."""
TOPICS: Final = b"topic/"
BEHIND: Final = b"added"
RECORD_S: Final = 2.0
"""Seconds that a question for a route waits until new queues have a place in the order."""
AGAIN_S: Final = 5.0
"""Seconds after a failure during which no question waits for that."""
KNOWN_MAX: Final = 10_000


@final
class QueueOrders:
    """The orders, as far as this proxy has applied their log; ``run`` is a task."""

    def __init__(
        self,
        keys: UpstreamKeys,
        *,
        settle_s: float,
        now_s: Callable[[], float] = trio.current_time,
    ) -> None:
        self._keys = keys
        self._now_s = now_s
        self._settling = SettlingTopics(settle_s, now_s)
        self._recording = trio.Lock()
        self._failed_s = -AGAIN_S
        self._refused_s: dict[str, float] = {}
        """Topics whose orders may not be kept -> the time at which that was seen."""
        self._said: set[str] = set()
        self._read: tuple[object, int] = (None, -1)
        """The state, and its position, of which ``_known`` and ``_behind`` are."""
        self._known: dict[str, QueueOrder | None] = {}
        self._behind: tuple[str, ...] | None = None
        self._runs: dict[int, dict[str, int]] = {}
        """Number of an added broker -> each broker behind it, and in how many topics."""
        self.width = 0
        """The number of added brokers: as many as the topic with most of them has."""
        self._unseen: set[str] = set()
        self.others: dict[str, QueueOrder] = {}
        """Topic -> its order, of those that clients sort in another way than the cluster."""

    async def run(self) -> None:
        """Follow the log, and note which topics have an order of their own, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keys.run)
            async for name, entry in KeyWatch(self._keys.logs, TOPICS):
                topic = name.removeprefix(TOPICS).decode("utf-8", "replace")
                is_kept = entry is not None and may_have_order(topic)
                order = self._decoded(topic, entry.value) if entry and is_kept else None
                self._note_runs(self.others.pop(topic, QueueOrder()), -1)
                if order is not None and not order.is_the_clusters:
                    self.others[topic] = order
                    self._note_runs(order, 1)

    def _note_runs(self, order: QueueOrder, change: int) -> None:
        for run in order.runs:
            counts = self._runs.setdefault(run.number, {})
            counts[run.broker] = counts.get(run.broker, 0) + change
            if not counts[run.broker]:
                del counts[run.broker]

    @property
    def log(self) -> PartitionStatus:
        """The place of this proxy in the log."""
        (status,) = self._keys.statuses()
        return status

    @property
    def why_unknown(self) -> str:
        """The reason why the orders are not known, so that no route may be told; empty if they
        are."""
        follower = self._keys.logs[0].follower
        if follower.opened.is_set():
            return ""
        why = f"the order of queues is not known yet: {follower.why or 'it is being read'}"
        if follower.is_lost:
            why += begin_again([f"{LOG_PREFIX}{one}{NAMESPACE}" for one in ("", SNAPSHOTS)])
            self._say(why)
        return why

    @property
    def why_unseen(self) -> str:
        """The reason why clients do not see all queues of a topic; empty if they see all."""
        return unseen(min(self._unseen)) if self._unseen else ""

    async def opened(self) -> None:
        """Wait until the orders are known."""
        await self._keys.logs[0].follower.opened.wait()

    # What is known

    @property
    def behind(self) -> tuple[str, ...]:
        """The brokers of the cluster that have queues at added brokers. A broker's place in it
        stays the same."""
        self._refresh()
        if self._behind is None:
            entry = self._keys.get(BEHIND)
            self._behind = ()
            if entry is not None:
                try:
                    self._behind = decode_behind(entry.value)
                except RemoteProtocolError as error:
                    self._say(str(error))
        return self._behind

    def behind_one(self, number: int) -> list[str]:
        """Return the brokers that are behind an added broker in any topic, by name."""
        return sorted(self._runs.get(number, ()))

    def of(self, topic: str) -> QueueOrder | None:
        """Return the order of a topic; None where it has none yet."""
        if not may_have_order(topic):
            return None  # clients can write anything: what no topic is called is not kept
        self._refresh()
        try:
            return self._known[topic]
        except KeyError:
            pass
        entry = self._keys.get(TOPICS + topic.encode())
        order = None if entry is None else self._decoded(topic, entry.value)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[topic] = order
        return order

    def of_route(self, topic: str, route: RouteData) -> QueueOrder | None:
        """Return the order for a route; None where the cluster's counts: a topic may have got an
        order of its own after it had one here. Raises ``Refused`` for one that cannot be read."""
        if not has_order(topic, route):
            return None
        order = self.of(topic)
        if order is None and self._keys.get(TOPICS + topic.encode()) is not None:
            raise unreadable(topic)
        return order

    def seen(self, topic: str, broker: str, queue_id: int) -> SeenQueue | None:
        """Return where clients see a queue of a broker; None for one that no order has."""
        order = self.of(topic) if self.behind else None
        return None if order is None else order.seen(broker, queue_id)

    def _refresh(self) -> None:
        """Forget what was decoded of the log before it had its latest records."""
        state = self._keys.logs[0].state
        if self._read[0] is not state or self._read[1] != state.meta.next:
            self._read = state, state.meta.next
            self._known, self._behind = {}, None

    def _decoded(self, topic: str, value: bytes) -> QueueOrder | None:
        try:
            order = QueueOrder.decode(value)
        except RemoteProtocolError as error:
            self._say(f"topic {topic} has {error}")
            return None
        if order.runs:
            self.width = max(self.width, order.runs[-1].number + 1)
        return order

    def _say(self, what: str) -> None:
        if what not in self._said and len(self._said) < KNOWN_MAX:
            self._said.add(what)
            LOGGER.error("%s", what)

    # What is new

    async def noted(self, topic: str, route: RouteData) -> QueueOrder | None:
        """Return the order for a route that was told just now; None where the cluster's counts.

        New queues get a place at its end, within ``RECORD_S``; as long as they have none, clients
        do not see them.
        """
        if not has_order(topic, route):
            return None
        told, written = queues_told(route), queues_written(route)
        order = self.of(topic)
        if order is None:
            if not told or not self._settling.has_settled(topic, told):
                return None
        else:
            self._settling.forget(topic)
            if not order.lacks(told, written):
                return order
        if order is None and self._recording.locked():
            return None  # the cluster's order counts for it until then, too
        now_s = self._now_s()
        if now_s >= max(self._failed_s, self._refused_s.get(topic, -AGAIN_S)) + AGAIN_S:
            with trio.move_on_after(RECORD_S) as scope:
                await self._record(topic, told, written)
            if scope.cancelled_caught:
                self._failed("the cluster takes no record of it now")
        return self.of(topic)

    async def _record(
        self, topic: str, told: Mapping[str, int], written: Mapping[str, int]
    ) -> None:
        """Give new queues their places. Others may do the same at once: one of them does it."""
        name = TOPICS + topic.encode()
        try:
            async with self._recording:
                while True:
                    entry = self._keys.get(name)
                    order = QueueOrder() if entry is None else self._decoded(topic, entry.value)
                    if order is None or (entry is not None and not order.lacks(told, written)):
                        return  # what is no order is left as it is, and holds up no other topic
                    new, behind = extended(order, told, self.behind, written)
                    if new.lacks(told, written) and len(self._unseen) < KNOWN_MAX:
                        self._unseen.add(topic)
                        self._say(unseen(topic))
                    if new == order:
                        return
                    value = new.encode()
                    if why := why_not_kept(self._keys.logs[0].state.meta, topic, value):
                        self._say(why)
                        if len(self._refused_s) >= KNOWN_MAX:
                            self._refused_s.clear()
                        self._refused_s[topic] = self._now_s()
                        return
                    if not await self.add_behind(behind):
                        continue
                    version = 0 if entry is None else entry.version
                    if await self._keys.put(name, value, expected=version) is not None:
                        say_added(topic, order, new, written)
                        return
        except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
            self._failed(str(error))

    # What moves

    @property
    def position(self) -> int:
        """The number of the log's records that are applied here; -1 while none are known."""
        follower = self._keys.logs[0].follower
        return follower.kept.next if follower.opened.is_set() else -1

    @property
    def keys(self) -> UpstreamKeys:
        """The entries of which the orders are."""
        return self._keys

    async def add_behind(self, behind: tuple[str, ...]) -> bool:
        """Set the brokers behind added ones; returns False if others have changed them."""
        if behind == self.behind:
            return True
        entry = self._keys.get(BEHIND)
        version = 0 if entry is None else entry.version
        return await self._keys.put(BEHIND, encode_behind(behind), expected=version) is not None

    def _failed(self, why: str) -> None:
        self._failed_s = self._now_s()
        LOGGER.warning("new queues are not seen yet: %s", why)

    def note_brokers(self, *names: str) -> None:
        """Say of brokers that clients sort behind added ones that their queues come last."""
        for name in names:
            if not sorts_before_added(name):
                self._say(
                    f"the name of broker {name!a} sorts behind those of added brokers: queues that "
                    "are added elsewhere come before its queues"
                )
