"""Generated from lanemq.sdk by sdk/tools/generate_faces.py."""

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import final

from lanemq.wire.bodies import MessageQueue

from .. import _lite_pull as _core_lite_pull
from .. import _push_consumer as _core_push_consumer
from .._messages import ReceivedMessage
from ..consumer._expressions import Expression
from ..faces._give_back import give_back, give_back_lent
from ._bridge import Bridge


@final
class PushConsumer:
    """A running consumer, made by `open_push_consumer`; it ends with its block."""

    def __init__(self, core: _core_push_consumer.PushConsumer, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.client_id: str = core.client_id
        """The id by which brokers and the group know this consumer."""

    def __repr__(self) -> str:
        return repr(self._core)

    def close(self) -> None:
        """Close this client as the end of its `with` block does; a repeat is harmless."""
        self._bridge.close()

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        return self._core.queues

    def subscribe(self, topic: str, expression: Expression = "*") -> None:
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
        self._bridge.call(self._core.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Read ``topic`` no longer.

        On return nothing more of it is handed to the listener; what the listener has already
        counts, and is reported when it returns. Messages pulled and not handed over come to
        the consumer that subscribes next. A listener may call this.
        """
        self._bridge.call(self._core.unsubscribe, topic)

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the next offset to read of ``queue``, or None if nothing is settled."""
        return self._bridge.run(self._core.committed_offset, queue)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that is not finished, of one of ``queues``.

        Messages above it may be finished as well. Raises ``WrongUse`` for another queue.
        """
        return self._bridge.run(self._core.position, queue)

    def end_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offset that the next message of each queue will get.

        Queues need not be read by this consumer. Raises whatever kept a broker from answering.
        """
        return self._bridge.call(self._core.end_offsets, queues)

    def lag(self) -> dict[MessageQueue, int]:
        """Return for each of ``queues`` the number of messages from its position to its end."""
        return self._bridge.call(self._core.lag)

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


@final
class LitePullConsumer:
    """A consumer to be polled, made by `open_lite_pull_consumer`; it ends with its block.

    Either ``subscribe`` to topics and share their queues with the group, or ``assign`` queues.
    Then ``poll``, or ``for message in consumer``. Meant for one thread that reads;
    ``seek``, ``pause`` and ``commit`` may come from others.
    """

    def __init__(self, core: _core_lite_pull.LitePullConsumer, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.client_id: str = core.client_id
        """The id by which brokers and the group know this consumer."""

    def __repr__(self) -> str:
        return repr(self._core)

    def close(self) -> None:
        """Close this client as the end of its `with` block does; a repeat is harmless."""
        self._bridge.close()

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        return self._core.queues

    def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Read ``topic``, sharing its queues with the consumers of the group.

        ``expression`` is ``"*"``, tags, ``"A || B"``, or a condition, ``Sql("a > 5")``. On
        return it has its queues, unless a broker could not be asked; then it goes on trying.
        Raises ``InvalidName``, ``WrongUse`` after ``assign``, ``RefusedByBroker`` from a
        broker that does not filter so, and ``NoRoute`` and more with ``require_route``; then
        nothing has changed.
        """
        self._bridge.call(self._core.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Read ``topic`` no longer and leave its queues to the others of the group.

        With ``auto_commit`` what ``poll`` returned of it is reported first.
        """
        self._bridge.call(self._core.unsubscribe, topic)

    def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all queues of ``topic`` that can be read, sorted. Raises ``NoRoute``."""
        return self._bridge.call(self._core.queues_of, topic)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly ``queues``, from the group's offset in each, no matter who else reads them.

        Raises ``NoRoute``, ``WrongUse`` after ``subscribe``, or whatever kept a broker from
        saying where the group is.
        """
        self._bridge.call(self._core.assign, queues)

    def poll(self, timeout_s: float = 5.0) -> list[ReceivedMessage]:
        """Return up to ``poll_messages_max`` messages of one queue, in order; [] if none came.

        With ``auto_commit``, asking for more says that what was returned before is done with.
        """
        return self._bridge.take(give_back(self._core), self._core.poll, timeout_s)

    def __iter__(self) -> "LitePullConsumer":
        """Iterate over messages one by one, without an end: ``for message in consumer``.

        With ``auto_commit`` a message counts as done with when the next one is asked for, and
        the last when the block ends. An error in the loop leaves the block: the message at
        hand comes again, those before it do not. ``commit`` inside the loop includes the
        message at hand.
        """
        return self

    def __next__(self) -> ReceivedMessage:
        message = None if (lent := self._core._buffer.lent) is None else lent.next(monotonic())
        while message is None:  # only a batch costs a hop between threads
            give_back = give_back_lent(self._core)
            lent = self._bridge.take(give_back, self._core._lend)
            message = lent.next(monotonic())
        return message

    def commit(
        self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True
    ) -> None:
        """Report everything that ``poll`` returned as consumed, or what ``offsets`` say.

        An offset is the next to be read. With ``wait`` the brokers have it on return, or a
        failure is raised. Raises ``WrongUse`` for a queue in ``offsets`` that is not read.
        """
        self._bridge.call(self._core.commit, offsets, wait=wait)

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group committed last in ``queue``; None if it never did."""
        return self._bridge.call(self._core.committed, queue)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Let ``poll`` continue from ``offset`` (counts messages) in a queue that is read.

        Raises ``WrongUse`` if it is not among ``queues``, and for a negative offset.
        """
        self._bridge.run(self._core.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go to the oldest message that the broker has, as ``seek`` does."""
        self._bridge.call(self._core.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go behind the newest message, as ``seek`` does."""
        self._bridge.call(self._core.seek_to_end, queue)

    def offsets_for_times(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return each queue's offset of the first message stored at a time or later, for `seek`.

        Times are milliseconds since 1970. Behind the last message it is the queue's next offset.
        Brokers before 5.0 answer the message stored nearest to the time, which may be one before
        it, and the last where all are older. Queues need not be read by this consumer. Raises
        whatever kept a broker from answering, ``NoRoute`` among it.
        """
        return self._bridge.call(self._core.offsets_for_times, times)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset behind what was returned of one of ``queues``. Raises ``WrongUse``."""
        return self._bridge.run(self._core.position, queue)

    def end_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offset that the next message of each queue will get."""
        return self._bridge.call(self._core.end_offsets, queues)

    def lag(self) -> dict[MessageQueue, int]:
        """Return for each of ``queues`` the number of messages from its position to its end."""
        return self._bridge.call(self._core.lag)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull nothing from ``queues``, or from any queue, until ``resume``.

        Their pulled messages stay, and ``poll`` does not return them meanwhile.
        """
        self._bridge.run(self._core.pause, queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on with ``queues``; without an argument, end every pause."""
        self._bridge.run(self._core.resume, queues)

    @property
    def paused(self) -> tuple[MessageQueue, ...]:
        """The paused ones among ``queues``."""
        return self._core.paused
