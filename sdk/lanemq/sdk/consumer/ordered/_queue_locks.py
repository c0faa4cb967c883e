"""The locks of an ordered consumer, which reads a queue while it has its lock at the broker.

A broker that is lanemq's ends the locks of a connection with it, so that the queues of a killed
consumer are free at once. A consumer that lives on must not rely on them any longer either.

Source: RocketMQ 4.9.8, RebalanceImpl.lock, lockAll, unlock; ConsumeMessageOrderlyService.
"""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, final

import trio

from lanemq.local import suspended_s
from lanemq.wire import BOUND_LOCK_FIELD, RemoteProtocolError, RequestCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import Frame, request

from ..._errors import BadAnswer, BrokerUnreachable, LanemqError
from ..._tasks import read_body
from ...logical._progress import lock_keeper
from ...net._client import Client
from ...observe._log import get_logger

LOGGER = get_logger("lanemq.sdk.locks")

RENEW_INTERVAL_S: Final = 20.0
LOCK_LIFE_S: Final = 30.0
"""Seconds after its last renewal when a lock counts as lost; a broker gives it to others after 60
s."""
NEVER_S: Final = -math.inf
RETRY_S: Final = 1.0
"""A renewal that failed is tried again after this, where the reference waits for the next."""


class Granted(NamedTuple):
    """Locks that a broker has given."""

    queues: set[MessageQueue]
    ends_with: str
    """The address of the broker where locks end with the connection; else empty."""


def _now_s() -> float:
    """Return the time by a clock that goes on while the machine is suspended."""
    return trio.current_time() + suspended_s()


@final
class Lease:
    """The lock of one queue, for as long as it is ours without a break."""

    __slots__ = ("_until_s", "ends_with")

    def __init__(self) -> None:
        self._until_s = NEVER_S
        self.ends_with = ""
        """The address of the broker whose connection it ends with, if it does."""

    @property
    def until_s(self) -> float:
        """Time from which it counts as lost, by trio's clock; in the past once it was.

        That clock stands still while the machine is suspended, and the broker's does not.
        """
        return self._until_s - suspended_s()

    def renew(self, asked_s: float, granted: Granted) -> None:
        """Note that the broker lent the lock, for a request made at ``asked_s`` of ``_now_s``."""
        self._until_s = asked_s + LOCK_LIFE_S
        self.ends_with = granted.ends_with

    def end(self) -> None:
        """Note that the lock is ours no longer."""
        self._until_s = NEVER_S


@final
class QueueLocks:
    """The locks that one consumer has. ``lost`` is called for each that it loses."""

    def __init__(self, client: Client, group: str, lost: Callable[[MessageQueue], None]) -> None:
        self._client = client
        self._group = group
        self._lost = lost
        self._leases: dict[MessageQueue, Lease] = {}
        client.remoting.on_disconnect(self._disconnected)

    def holds(self, queue: MessageQueue) -> bool:
        """Return whether the lock is ours at this moment."""
        lease = self._leases.get(queue)
        return lease is not None and trio.current_time() < lease.until_s

    def lease(self, queue: MessageQueue) -> Lease:
        """Return the lease of a queue; of one that was never ours, a lease that has ended."""
        return self._leases.get(queue) or Lease()

    async def claim(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask for the locks of ``queues``; those that are ours now. Failures are logged."""
        granted: set[MessageQueue] = set()

        async def ask(address: str, wanted: list[MessageQueue]) -> None:
            asked_s = _now_s()  # the lock's life begins no earlier
            answer = await self._ask(address, wanted)
            if answer is None:
                return
            granted.update(answer.queues)
            for queue in answer.queues:
                self._leases.setdefault(queue, Lease()).renew(asked_s, answer)

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
        lease.end()
        return True

    async def run(self) -> None:
        """Renew the locks until cancelled."""
        pause_s = RENEW_INTERVAL_S
        while True:
            await trio.sleep(pause_s)
            self._lose_overdue()  # after a suspension others may have had them in between
            answered = await self._renew()
            pause_s = RENEW_INTERVAL_S if answered else RETRY_S
            self._lose_overdue()

    def _lose_overdue(self) -> None:
        for queue in tuple(self._leases):
            if not self.holds(queue):
                LOGGER.warning("the lock of %s could not be renewed in time", queue)
                self._lose(queue)

    async def _renew(self) -> bool:
        complete = True

        async def ask(address: str, wanted: list[MessageQueue]) -> None:
            nonlocal complete
            asked_s = _now_s()
            answer = await self._ask(address, wanted)
            if answer is None:
                complete = False
                return
            for queue in wanted:
                lease = self._leases.get(queue)
                if lease is None:
                    continue  # given back meanwhile
                if queue in answer.queues:
                    lease.renew(asked_s, answer)
                else:
                    LOGGER.warning("the lock of %s is another consumer's", queue)
                    self._lose(queue)

        await self._each_broker(ask, tuple(self._leases))
        return complete

    def _disconnected(self, address: str) -> None:
        for queue, lease in tuple(self._leases.items()):
            if lease.ends_with == address:
                LOGGER.warning("the lock of %s ended with the connection to %s", queue, address)
                self._lose(queue)

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
        """Return the address of the broker that lends the lock of ``queue``; "" if nobody can be
        asked."""
        routes = self._client.routes
        route = routes.get(queue.topic)
        if route is not None and route.chain(queue) is not None:
            return lock_keeper(route, queue) or ""
        return routes.master(queue.broker_name) or ""

    async def _call(self, code: RequestCode, address: str, queues: list[MessageQueue]) -> Frame:
        if not address:
            raise BrokerUnreachable(queues[0].broker_name, "its master is not in any known route")
        body = LockBatch(self._group, self._client.client_id, tuple(queues))
        frame = request(code, {BOUND_LOCK_FIELD: "true"}, body.encode())
        timeout_s = self._client.options.call_timeout_s
        return await self._client.remoting.call(address, frame, timeout_s)

    async def _ask(self, address: str, queues: list[MessageQueue]) -> Granted | None:
        """Return the queues that are ours now, or None if the broker could not be asked."""
        connection = self._client.remoting.connection_number
        before = connection(address)
        try:
            answer = await self._call(RequestCode.LOCK_BATCH_MQ, address, queues)
            answered = connection(address)
            result = await read_body(answer.body, LockBatchResult.decode)
            granted = set(result.lock_ok_mq_set) & set(queues)
        except RemoteProtocolError as error:
            LOGGER.warning("%s", BadAnswer(address, "a request for locks", str(error)))
        except LanemqError as error:
            LOGGER.warning("cannot ask for locks: %s", error)
        else:
            if BOUND_LOCK_FIELD not in answer.fields:
                return Granted(granted, "")
            now = connection(address)
            if now is not None and now == answered and before in (None, now):
                return Granted(granted, address)
            LOGGER.info("%s: the connection ended with the answer to a request for locks", address)
        return None

    async def _give_back(self, address: str, queues: list[MessageQueue]) -> None:
        try:
            await self._call(RequestCode.UNLOCK_BATCH_MQ, address, queues)
        except LanemqError as error:
            LOGGER.warning("cannot give locks back: %s", error)
