"""The locks of an ordered consumer: who has a queue's lock at its broker may consume it.

Source: RocketMQ 4.9.8, RebalanceImpl.lock, lockAll, unlock; ConsumeMessageOrderlyService.
"""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, final

import trio

from lanemq.wire import (
    LockBatch,
    LockBatchResult,
    MessageQueue,
    RemoteProtocolError,
    RequestCode,
    request,
)

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, LanemqError
from ._log import get_logger
from ._logical_progress import lock_keeper

LOGGER = get_logger("lanemq.sdk.locks")

RENEW_INTERVAL_S: Final = 20.0
LOCK_LIFE_S: Final = 30.0
"""Not renewed for so long, a lock counts as lost; a broker gives it to others after 60 s."""
NEVER_S: Final = -math.inf
RETRY_S: Final = 1.0
"""A renewal that failed is tried again after this, where the reference waits for the next."""


@final
class Lease:
    """The lock of one queue, for as long as it is ours without a break."""

    __slots__ = ("until_s",)

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        """When it counts as lost, by trio's clock; in the past once it was."""


@final
class QueueLocks:
    """The locks that one consumer has. ``lost`` is told of each that it lost."""

    def __init__(self, client: Client, group: str, lost: Callable[[MessageQueue], None]) -> None:
        self._client = client
        self._group = group
        self._lost = lost
        self._leases: dict[MessageQueue, Lease] = {}

    def holds(self, queue: MessageQueue) -> bool:
        """Whether the lock is ours at this moment."""
        lease = self._leases.get(queue)
        return lease is not None and trio.current_time() < lease.until_s

    def lease(self, queue: MessageQueue) -> Lease:
        """What says so from now on; of a queue that was never ours, one that has ended."""
        return self._leases.get(queue) or Lease(NEVER_S)

    async def claim(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask for the locks of ``queues``; those that are ours now. Failures are logged."""
        granted: set[MessageQueue] = set()

        async def ask(address: str, wanted: list[MessageQueue]) -> None:
            asked_s = trio.current_time()  # the lock's life begins no earlier
            answer = await self._ask(address, wanted) or set()
            granted.update(answer)
            for queue in answer:
                lease = self._leases.setdefault(queue, Lease(NEVER_S))
                lease.until_s = asked_s + LOCK_LIFE_S

        await self._each_broker(ask, queues)
        return granted

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Give locks back; failures are logged, and end with the locks' life."""
        given = [queue for queue in queues if self._end(queue)]
        await self._each_broker(self._give_back, given)

    async def release_all(self) -> None:
        """Give all locks back."""
        await self.release(tuple(self._leases))

    def _end(self, queue: MessageQueue) -> bool:
        lease = self._leases.pop(queue, None)
        if lease is None:
            return False
        lease.until_s = NEVER_S
        return True

    async def run(self) -> None:
        """Renew the locks until cancelled."""
        pause_s = RENEW_INTERVAL_S
        while True:
            await trio.sleep(pause_s)
            answered = await self._renew()
            pause_s = RENEW_INTERVAL_S if answered else RETRY_S
            for queue in tuple(self._leases):
                if not self.holds(queue):
                    LOGGER.warning("the lock of %s could not be renewed in time", queue)
                    self._lose(queue)

    async def _renew(self) -> bool:
        complete = True

        async def ask(address: str, wanted: list[MessageQueue]) -> None:
            nonlocal complete
            asked_s = trio.current_time()
            answer = await self._ask(address, wanted)
            if answer is None:
                complete = False
                return
            for queue in wanted:
                lease = self._leases.get(queue)
                if lease is None:
                    continue  # given back meanwhile
                if queue in answer:
                    lease.until_s = asked_s + LOCK_LIFE_S
                else:
                    LOGGER.warning("the lock of %s is another consumer's", queue)
                    self._lose(queue)

        await self._each_broker(ask, tuple(self._leases))
        return complete

    def _lose(self, queue: MessageQueue) -> None:
        self._end(queue)
        self._lost(queue)

    async def _each_broker(
        self,
        act: Callable[[str, list[MessageQueue]], Awaitable[None]],
        queues: Iterable[MessageQueue],
    ) -> None:
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(self._keeper(queue), []).append(queue)
        async with trio.open_nursery() as nursery:
            for address, chosen in by_broker.items():
                nursery.start_soon(act, address, chosen)

    def _keeper(self, queue: MessageQueue) -> str:
        """Who lends the lock of ``queue``; "" if nobody can be asked."""
        routes = self._client.routes
        route = routes.get(queue.topic)
        if route is not None and route.chain(queue) is not None:
            return lock_keeper(route, queue) or ""
        return routes.master(queue.broker_name) or ""

    async def _call(self, code: RequestCode, address: str, queues: list[MessageQueue]) -> bytes:
        if not address:
            raise BrokerUnreachable(queues[0].broker_name, "its master is not in any known route")
        body = LockBatch(self._group, self._client.client_id, tuple(queues))
        frame = request(code, body=body.encode())
        timeout_s = self._client.options.call_timeout_s
        return (await self._client.remoting.call(address, frame, timeout_s)).body

    async def _ask(self, address: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """The queues that are ours now, or None if the broker could not be asked."""
        try:
            body = await self._call(RequestCode.LOCK_BATCH_MQ, address, queues)
            return set(LockBatchResult.decode(body).lock_ok_mq_set) & set(queues)
        except RemoteProtocolError as error:
            LOGGER.warning("%s", BadAnswer(address, "a request for locks", str(error)))
        except LanemqError as error:
            LOGGER.warning("cannot ask for locks: %s", error)
        return None

    async def _give_back(self, address: str, queues: list[MessageQueue]) -> None:
        try:
            await self._call(RequestCode.UNLOCK_BATCH_MQ, address, queues)
        except LanemqError as error:
            LOGGER.warning("cannot give locks back: %s", error)
