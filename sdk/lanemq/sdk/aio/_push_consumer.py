"""Generated from lanemq.sdk._push_consumer by sdk/tools/generate_faces.py."""

from collections.abc import Iterable
from typing import final

from lanemq.wire.bodies import MessageQueue

from .. import _push_consumer as _core
from ..consumer._expressions import Expression
from ._bridge import Bridge


@final
class PushConsumer:
    """A consumer at work; made by `open_push_consumer`, ends with its block."""

    def __init__(self, core: _core.PushConsumer, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.client_id: str = core.client_id
        """The id by which brokers and the group know this consumer."""

    def __repr__(self) -> str:
        return repr(self._core)

    async def close(self) -> None:
        """Close this client as the end of its `async with` block does; again does no harm."""
        await self._bridge.close()

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        return self._core.queues

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Read ``topic`` as well, or by another expression than before.

        ``expression`` is as in ``subscriptions`` of `open_push_consumer`. On return the consumer
        has its queues, unless a broker could not be asked; then it goes on trying. After a
        change of the expression whatever is not settled yet is judged by the new one; a queue
        whose listener runs at the moment is read again when that has returned. All consumers of
        a group should change alike. A listener may call this.

        Raises ``InvalidName``, ``RefusedByBroker`` from a broker that does not filter so, and
        ``BrokerUnreachable`` or ``RequestTimedOut`` if no name server answers; then nothing has
        changed.
        """
        await self._bridge.call(self._core.subscribe, topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """Read ``topic`` no longer.

        On return nothing more of it is handed to the listener; what the listener has already
        counts, and is reported when it returns. Messages pulled and not handed over come to
        the consumer that subscribes next. A listener may call this.
        """
        await self._bridge.call(self._core.unsubscribe, topic)

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the next offset to read of ``queue``, or None if nothing is settled."""
        return self._bridge.run(self._core.committed_offset, queue)

    @property
    def concurrency(self) -> int:
        """The number of listeners that may run at once, by the listener or ``set_concurrency``."""
        return self._core.concurrency

    def set_concurrency(self, concurrency: int) -> None:
        """Set how many listeners run at once from now on, at least one.

        Where more are running, they finish; none is cancelled.
        """
        self._bridge.run(self._core.set_concurrency, concurrency)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull nothing from ``queues``, or from any queue, until ``resume``.

        The consumer keeps its queues. Messages pulled before still come to the listener; that
        is at most what ``FlowLimits`` let it hold.
        """
        self._bridge.run(self._core.pause, queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on with ``queues``; without an argument, end every pause."""
        self._bridge.run(self._core.resume, queues)

    @property
    def paused(self) -> tuple[MessageQueue, ...]:
        """The paused ones among ``queues``."""
        return self._core.paused
