"""Which queues this consumer reads, kept equal to what the group's division says.

Source: RocketMQ 4.9.8, RebalanceImpl, RebalanceService.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Protocol, final

import trio

from lanemq.wire import RETRY_PREFIX, MessageQueue, SubscriptionData

from ._client import Client
from ._errors import LanemqError
from ._group_calls import GroupCalls
from ._held_queue import HeldQueue
from ._log import get_logger
from ._offsets import Offsets
from ._options import ConsumerOptions, MessageModel
from ._pull_loop import PullLoop
from ._start_offset import start_offset

LOGGER = get_logger("lanemq.sdk.rebalance")

# A division that could not be completed is tried again after this, not after 20 s.
RETRY_S = 1.0


class Ownership(Protocol):
    """How an ordered consumer makes queues its own before it reads them."""

    async def claim(self, queues: Iterable[MessageQueue]) -> Collection[MessageQueue]:
        """Those of ``queues`` that may be read; the others may be later."""

    def owns(self, queue: MessageQueue) -> bool:
        """Whether a queue that was claimed is ours still."""

    async def disclaim(self, queue: MessageQueue) -> None:
        """A queue that was claimed is not read after all."""

    def retire(self, held: HeldQueue) -> None:
        """See to the end of a queue that is not held any more."""


@final
class Membership:
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
        nursery: trio.Nursery,
    ) -> None:
        self._client = client
        self._calls = calls
        self._offsets = offsets
        self._options = options
        self._subscriptions = subscriptions
        self._nursery = nursery
        self._pulls: PullLoop | None = None
        self._ownership: Ownership | None = None
        self._wake = trio.Event()
        self._lock = trio.Lock()
        self._stopped = False
        self.held: dict[MessageQueue, HeldQueue] = {}

    def pull_with(self, pulls: PullLoop) -> None:
        """How new queues are pulled; set once, before the first division."""
        self._pulls = pulls

    def own_with(self, ownership: Ownership) -> None:
        """How queues become ours and cease to be; set before the first division, if at all."""
        self._ownership = ownership

    def wake(self, _: object = None) -> None:
        """Look again soon: the group, a route or a subscription changed."""
        self._wake.set()

    async def run(self, complete: bool) -> None:
        """Divide anew every ``rebalance_interval_s``, and whenever woken.

        ``complete`` is what the last ``rebalance`` said.
        """
        while True:
            interval_s = self._options.rebalance_interval_s if complete else RETRY_S
            with trio.move_on_after(interval_s):
                await self._wake.wait()
            self._wake = trio.Event()
            complete = await self.rebalance()

    async def rebalance(self) -> bool:
        """Take and give up queues; False if something could not be found out."""
        complete = True
        async with self._lock:
            for topic in tuple(self._subscriptions):
                try:
                    mine = await self._mine(topic)
                    if mine is None:
                        complete = complete and self._client.routes.get(topic) is None
                    elif not await self._hold(mine, topic, strict=False):
                        complete = False
                except LanemqError as error:
                    LOGGER.warning("cannot divide the queues of %s: %s", topic, error)
                    complete = False
        return complete

    async def _mine(self, topic: str) -> list[MessageQueue] | None:
        """The queues of ``topic`` that are this consumer's, or None if nobody can tell now."""
        route = self._client.routes.get(topic)
        if route is None:
            level = logging.DEBUG if topic.startswith(RETRY_PREFIX) else logging.WARNING
            LOGGER.log(level, "topic %s does not exist (yet)", topic)
            return None
        queues = route.subscribe_queues
        if self._options.message_model is MessageModel.BROADCASTING:
            return list(queues)
        client_ids = await self._calls.consumer_ids(topic)
        client_id = self._client.client_id
        if client_ids is None or client_id not in client_ids:
            # The broker does not know us: it was restarted, or our heartbeat was lost. What
            # we hold is kept until it does, for nobody else can have been told to take it.
            LOGGER.info("%s is not in the group's list at the broker of %s", client_id, topic)
            await self._client.heartbeat()
            return None
        try:
            return self._options.allocate(client_id, queues, client_ids)
        except Exception:  # the application's own; what is held stays held
            LOGGER.exception("the queues of %s cannot be divided", topic)
            return None

    async def hold_exactly(self, queues: Iterable[MessageQueue]) -> None:
        """Hold ``queues`` and no others; raises what keeps one of them from starting."""
        async with self._lock:
            await self._hold(queues, None, strict=True)

    async def give_up(self, topic: str) -> None:
        """Hold no queue of ``topic`` any more."""
        async with self._lock:
            await self._hold((), topic, strict=False)

    async def _hold(self, mine: Iterable[MessageQueue], topic: str | None, *, strict: bool) -> bool:
        """Hold exactly ``mine`` of ``topic`` (of all, if None); False if some could not start."""
        wanted = dict.fromkeys(mine)
        changed, complete = False, True
        for queue in tuple(self.held):
            if queue not in wanted and topic in (None, queue.topic):
                await self._release(queue)
                changed = True
        fresh = [queue for queue in wanted if queue not in self.held and not self._stopped]
        owner = self._ownership
        claimed = fresh if owner is None or not fresh else await owner.claim(fresh)
        if len(claimed) < len(fresh):
            complete = False
        for queue in fresh:
            if queue not in claimed or queue in self.held or self._stopped:
                continue
            try:
                offset = await start_offset(
                    queue,
                    offsets=self._offsets,
                    calls=self._calls,
                    options=self._options,
                    now_ms=self._client.clock_ms(),
                )
            except LanemqError as error:
                if strict:
                    raise
                LOGGER.warning("cannot find where to start in %s: %s", queue, error)
                complete = False
                if owner is not None:
                    await owner.disclaim(queue)
                continue
            if owner is not None and not owner.owns(queue):
                complete = False
            elif queue not in self.held:  # it may have been corrected meanwhile
                self.start(queue, offset)
                changed = True
        if changed:
            LOGGER.info(
                "%s holds %d queues%s",
                self._client.client_id,
                len(self.held),
                "" if topic is None else f" after a look at {topic}",
            )
        return complete

    def start(self, queue: MessageQueue, offset: int) -> None:
        """Hold ``queue`` and pull it from ``offset`` on."""
        if self._stopped:
            return
        assert self._pulls is not None, "pull_with comes first"
        assert queue not in self.held, f"{queue} is held already"
        held = self.held[queue] = HeldQueue(queue, offset)
        subscription = self._subscriptions.get(queue.topic) or SubscriptionData(queue.topic)
        self._nursery.start_soon(self._pulls.run, held, subscription)

    async def _release(self, queue: MessageQueue) -> None:
        held = self.held.pop(queue, None)
        if held is None:
            return
        if self._ownership is not None:
            self._ownership.retire(held)
            return
        held.drop()
        await self._offsets.persist([queue], wait=False)
        self._offsets.forget(queue)
        LOGGER.info("gave up %s", queue)

    async def correct(self, queue: MessageQueue, offset: int, *, reset: bool = False) -> None:
        """Go on from ``offset`` in ``queue``, forward or back, and have the broker know it.

        What was pulled is forgotten; what a listener still works on is not counted any more.
        ``reset`` says that an operator wants it, and not the state of the queue.
        """
        held = self.held.pop(queue, None)
        if held is None:
            return
        held.drop()
        if reset:
            self._offsets.reset(queue, offset)
        else:
            self._offsets.update(queue, offset)
        await self._offsets.persist([queue], wait=True)
        if queue not in self.held:
            self.start(queue, offset)

    def restart(self, queue: MessageQueue, offset: int) -> None:
        """Read a held queue from ``offset`` on; progress stays what it is."""
        self.held.pop(queue).drop()
        self.start(queue, offset)

    def stop(self) -> None:
        """Pull nothing any more; what was pulled stays and can be settled."""
        self._stopped = True
        for held in self.held.values():
            held.scope.cancel()
