"""Written after lanemq.sdk._push_consumer by sdk/tools/generate_faces.py; change it there."""

from collections.abc import Iterable
from typing import final

from lanemq.wire import MessageQueue

from .. import _push_consumer as _core
from ._bridge import Bridge


@final
class PushConsumer:
    """A consumer at work; made by `open_push_consumer`, ends with its block."""

    def __init__(self, core: _core.PushConsumer, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def client_id(self) -> str:
        """By which brokers and the group know this consumer."""
        return self._bridge.run(lambda: self._core.client_id)

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        return self._bridge.run(lambda: self._core.queues)

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """How far ``queue`` is settled (the next offset to read), or None if nothing is."""
        return self._bridge.run(self._core.committed_offset, queue)

    @property
    def concurrency(self) -> int:
        """How many listeners may run at once, as the listener or ``set_concurrency`` said."""
        return self._bridge.run(lambda: self._core.concurrency)

    def set_concurrency(self, concurrency: int) -> None:
        """Let so many listeners run at once from now on, at least one.

        Where more are running, they finish; none is cancelled.
        """
        self._bridge.run(self._core.set_concurrency, concurrency)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull nothing from ``queues``, or from any queue, until ``resume``.

        The consumer keeps its queues. What was pulled before still comes to the listener; that
        is at most what ``FlowLimits`` let it hold.
        """
        self._bridge.run(self._core.pause, queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on with ``queues``; without an argument, end every pause."""
        self._bridge.run(self._core.resume, queues)

    @property
    def paused(self) -> tuple[MessageQueue, ...]:
        """Those of ``queues`` that are paused."""
        return self._bridge.run(lambda: self._core.paused)
