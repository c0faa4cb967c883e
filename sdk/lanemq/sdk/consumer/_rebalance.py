"""The queues that a consumer reads, kept equal to what the group's division says.

Source: RocketMQ 4.9.8, RebalanceImpl, RebalanceService.
"""

import math
from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Final, final

import trio

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import MessageModel, MessageQueue, SubscriptionData

from .._errors import LanemqError
from .._options import ConsumerOptions
from .._tasks import settle
from ..net._client import Client
from ..observe._log import get_logger
from ._allocation import allocated
from ._held_queues import HeldQueues
from ._ownership import FreeQueues, Ownership
from ._queue_changes import QueueChanges
from .group._group_calls import GroupCalls
from .group._offsets import Offsets
from .group._start_offset import StartOffsets
from .pulls._held_queue import HeldQueue
from .pulls._pull_loop import PullLoop

LOGGER = get_logger("lanemq.sdk.rebalance")

# A division that could not be completed is tried again after this, not after 20 s.
RETRY_S = 1.0
QUEUES_AT_ONCE: Final = 4096
"""Queues beyond which a division is taken over in several turns."""
MISSING_S: Final = 5.0
"""Seconds for which a topic without a route may be one that is just being made."""


@final
class Rebalance:
    """The queues held, and the one task that changes them.

    ``subscriptions`` is the consumer's own table, topic -> subscription; it may change.
    """

    def __init__(
        self,
        client: Client,
        calls: GroupCalls,
        offsets: Offsets,
        options: ConsumerOptions,
        subscriptions: dict[str, SubscriptionData],
        changes: QueueChanges,
        nursery: trio.Nursery,
    ) -> None:
        self._client = client
        self._calls = calls
        self._offsets = offsets
        self._starts = StartOffsets(offsets, calls, options, client.clock_ms)
        self._options = options
        self._subscriptions = subscriptions
        self._nursery = nursery
        self._pulls: PullLoop | None = None
        self._changes = changes
        self._ownership: Ownership = FreeQueues(offsets, changes)
        self._wake = trio.Event()
        self._lock = trio.Lock()
        self._stopped = False
        self._missing: dict[str, float] = {}
        """Topics without a route, and the time from which on that is a reason to warn of; ``inf``
        where that was done."""
        self._queues = HeldQueues()
        self.count, self.remove = self._queues.count, self._queues.remove

    @property
    def held(self) -> Mapping[MessageQueue, HeldQueue]:
        """The queues held, as they are now; any thread may read them."""
        return self._queues.all

    def pull_with(self, pulls: PullLoop) -> None:
        """Pull new queues with ``pulls``; called once, before the first division."""
        self._pulls = pulls

    def own_with(self, ownership: Ownership) -> None:
        """Take and give up queues by ``ownership``; set before the first division."""
        self._ownership = ownership

    def wake(self, _: object = None) -> None:
        """Look again soon: the group, a route or a subscription changed."""
        self._wake.set()

    async def run(self, complete: bool) -> None:
        """Divide again every ``rebalance_interval_s``, and whenever woken.

        ``complete`` is what the last ``divide`` said.
        """
        while True:
            interval_s = self._options.rebalance_interval_s if complete else RETRY_S
            until_s = trio.current_time() + interval_s
            with trio.move_on_at(min((until_s, *self._missing.values()))):
                await self._wake.wait()
            self._wake = trio.Event()
            complete = await self.divide()

    async def divide(self) -> bool:
        """Take and give up queues; False if something could not be found out."""
        complete = True
        async with self._lock:
            for topic in self._missing.keys() - self._subscriptions.keys():
                del self._missing[topic]
            topics = tuple(self._subscriptions)
            found = await settle([partial(self._mine, topic) for topic in topics])
            for topic, mine in zip(topics, found, strict=True):
                try:
                    if isinstance(mine, LanemqError):
                        raise mine
                    if topic not in self._subscriptions:
                        continue  # no longer
                    if mine is None:
                        complete = complete and self._client.routes.get(topic) is None
                        continue
                    with self._changes.together():
                        complete = await self._hold(mine, topic, strict=False) and complete
                except LanemqError as error:
                    LOGGER.warning("cannot divide the queues of %s: %s", topic, error)
                    complete = False
        return complete

    async def _mine(self, topic: str) -> list[MessageQueue] | None:
        """Return this consumer's queues of ``topic``, or None if that is not known now."""
        route = self._client.routes.get(topic)
        if route is None:
            self._miss(topic)
            return None
        self._missing.pop(topic, None)
        if self._options.message_model is MessageModel.BROADCASTING:
            return list(route.subscribe_queues)
        client_ids = await self._calls.consumer_ids(topic)
        client_id = self._client.client_id
        if client_ids is None or client_id not in client_ids:
            # The broker does not know us: it was restarted, or our heartbeat was lost. What
            # we hold is kept until it does: no other consumer can have been told to take it.
            LOGGER.info("%s is not in the group's list at the broker of %s", client_id, topic)
            await self._client.heartbeat()
            return None
        try:
            allocate, queues = self._options.allocate, route.subscribe_queues
            return await allocated(allocate, client_id, queues, client_ids)
        except Exception:  # the application's own; what is held stays held
            LOGGER.exception("the queues of %s cannot be divided", topic)
            return None

    def _miss(self, topic: str) -> None:
        """Note that ``topic`` has no route, and warn of one that is not there for a while."""
        now_s = trio.current_time()
        if topic.startswith(RETRY_PREFIX):  # a topic that need not exist
            LOGGER.debug("topic %s is not there yet", topic)
        elif topic not in self._missing:
            self._missing[topic] = now_s + MISSING_S
            LOGGER.info("topic %s is not there yet", topic)
        elif self._missing[topic] <= now_s:
            self._missing[topic] = math.inf
            LOGGER.warning(
                "topic %s does not exist, so nothing of it is consumed: check its name and the"
                " name servers; it is consumed as soon as somebody creates it or sends to it",
                topic,
            )

    async def hold_exactly(self, queues: Iterable[MessageQueue]) -> None:
        """Hold ``queues`` and no others; raises what keeps one of them from starting."""
        async with self._lock:
            with self._changes.together():
                await self._hold(queues, None, strict=True)

    async def give_up(self, topic: str) -> None:
        """Hold no queue of ``topic`` any more; what listeners still do of it counts."""
        async with self._lock:
            with self._changes.together():
                await self._release_others((), topic, finish=True)

    async def _hold(self, mine: Iterable[MessageQueue], topic: str | None, *, strict: bool) -> bool:
        """Hold exactly ``mine`` of ``topic`` (of all, if None); False if some could not start."""
        wanted = dict.fromkeys(mine)
        self._starts.wait_only(wanted, topic)
        changed = await self._release_others(wanted, topic, finish=False)
        if len(wanted) > QUEUES_AT_ONCE:
            await trio.lowlevel.checkpoint()
        fresh = [queue for queue in wanted if queue not in self._queues and not self._stopped]
        owner = self._ownership
        claimed = frozenset(await owner.claim(fresh) if fresh else ())
        complete = len(claimed) == len(fresh)
        offsets = await self._starts.find_all(fresh, claimed)
        for queue in fresh:
            if queue not in claimed or queue in self._queues or self._stopped:
                continue
            offset = offsets[queue]
            if isinstance(offset, LanemqError):
                if strict:
                    raise offset
                LOGGER.warning("cannot find where to start in %s: %s", queue, offset)
                complete = False
                await owner.disclaim(queue)
                continue
            if topic is not None and topic not in self._subscriptions:
                await owner.disclaim(queue)
            elif owner.owns(queue):
                self._changes.assigned(queue)
                self.start(queue, offset)
                self._starts.started(queue)
                changed = True
            else:
                complete = False
        if changed:
            LOGGER.info(
                "%s holds %d queues%s",
                self._client.client_id,
                len(self.held),
                "" if topic is None else f" after a look at {topic}",
            )
        return complete

    async def _release_others(
        self, wanted: Container[MessageQueue], topic: str | None, *, finish: bool
    ) -> bool:
        """Give up the queues held of ``topic`` that are not ``wanted``; returns whether there were
        any."""
        others = {
            queue: held
            for queue, held in self.held.items()
            if queue not in wanted and topic in (None, queue.topic)
        }
        for queue in others:
            self._queues.remove(queue)
        release = partial(self._ownership.release, finish=finish)
        async with trio.open_nursery() as nursery:
            for held in others.values():
                nursery.start_soon(release, held)
        return bool(others)

    def start(self, queue: MessageQueue, offset: int) -> None:
        """Hold ``queue`` and pull it from ``offset`` on."""
        if self._stopped:
            return
        assert queue not in self._queues, f"{queue} is held already"
        self._read_from(queue, offset)

    def _read_from(self, queue: MessageQueue, offset: int) -> HeldQueue:
        held = HeldQueue(queue, offset)
        self._queues.put(held)
        subscription = self._subscriptions.get(queue.topic) or SubscriptionData(queue.topic)
        self._nursery.start_soon(self._read, held, subscription)
        return held

    async def _read(self, held: HeldQueue, subscription: SubscriptionData) -> None:
        assert self._pulls is not None, "pull_with comes first"
        await self._changes.wait_told(held.queue)
        await self._pulls.run(held, subscription)

    async def correct(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        reset: bool = False,
        of: HeldQueue | None = None,
    ) -> None:
        """Go on from ``offset`` in ``queue``, forward or back, and have the broker know it.

        Pulled messages are forgotten; those that a listener still works on no longer count.
        ``reset`` says that an operator wants it, and not the state of the queue. Nothing happens
        where the queue is not held, or, with ``of``, is not held as it was.
        """
        async with self._lock:  # nobody gives it up or takes it meanwhile
            held = self._queues.get(queue)
            if held is None or of not in (None, held):
                return
            held.drop()
            if reset:
                self._offsets.reset(queue, offset)
            else:
                self._offsets.update(queue, offset)
            try:
                await self._offsets.persist([queue], wait=True)
            finally:  # or it would be held and never read
                if self._queues.get(queue) is held:  # its lock may have been lost
                    self._replace(queue, offset)

    def restart(self, queue: MessageQueue, offset: int) -> HeldQueue | None:
        """Read a held queue from ``offset`` on; progress stays what it is.

        Returns it as it is held now, None where nothing is read any more.
        """
        self.held[queue].drop()
        return self._replace(queue, offset)

    def _replace(self, queue: MessageQueue, offset: int) -> HeldQueue | None:
        if self._stopped:
            self.remove(queue)
            return None
        return self._read_from(queue, offset)

    def stop(self) -> None:
        """Pull nothing any more; what was pulled stays and can be settled."""
        self._stopped = True
        for held in self.held.values():
            held.scope.cancel()
