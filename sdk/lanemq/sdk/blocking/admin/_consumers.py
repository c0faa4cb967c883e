"""Generated from lanemq.sdk.admin.requests by sdk/tools/generate_faces.py."""

from collections.abc import Mapping, Sequence

from lanemq.wire import LONG_MAX, SystemGroup
from lanemq.wire.bodies import (
    ConsumeMessageDirectlyResultBody,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    ExpressionType,
    MessageQueue,
    ProducerConnection,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
)
from lanemq.wire.message import StoredMessage

from ...admin._client import AdminClient
from ...admin.requests._messages import Pulled, PulledRecords
from .._bridge import Bridge


class ConsumerRequests:
    """Requests, one method each."""

    _core: AdminClient
    _bridge: Bridge

    def consume_stats(self, address: str, group: str, *, topic: str | None = None) -> ConsumeStats:
        """Return a group's progress in each queue (208), of all its topics or of one."""
        return self._bridge.call(self._core.consume_stats, address, group, topic=topic)

    def consume_stats_of_all(self, address: str, *, only_ordered: bool = False) -> ConsumeStatsList:
        """Return the progress of every group of a broker (317)."""
        return self._bridge.call(
            self._core.consume_stats_of_all, address, only_ordered=only_ordered
        )

    def consumer_connections(self, address: str, group: str) -> ConsumerConnection | None:
        """Return the connected members of a group (203), None without any."""
        return self._bridge.call(self._core.consumer_connections, address, group)

    def producer_connections(self, address: str, group: str) -> ProducerConnection:
        """Return the connected members of a producer group (204)."""
        return self._bridge.call(self._core.producer_connections, address, group)

    def max_offset(self, address: str, queue: MessageQueue) -> int:
        """Return the offset of the next message of a queue (30)."""
        return self._bridge.call(self._core.max_offset, address, queue)

    def min_offset(self, address: str, queue: MessageQueue) -> int:
        """Return the offset of the first message that is still there (31)."""
        return self._bridge.call(self._core.min_offset, address, queue)

    def search_offset(self, address: str, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time (29)."""
        return self._bridge.call(self._core.search_offset, address, queue, timestamp_ms)

    def group_offset(self, address: str, group: str, queue: MessageQueue) -> int | None:
        """Return where a group resumes in a queue (14), None where it never committed.

        A broker may say 0 for that, while the queue is young.
        """
        return self._bridge.call(self._core.group_offset, address, group, queue)

    def put_offset(self, address: str, group: str, queue: MessageQueue, queue_offset: int) -> None:
        """Make a group resume at ``queue_offset`` (15). A running consumer overwrites it."""
        self._bridge.call(self._core.put_offset, address, group, queue, queue_offset)

    def lock_queues(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> frozenset[MessageQueue]:
        """Take, or renew, the locks of a group on queues of a broker (41); return those that the
        client has now.

        A lock is nobody else's for 60 s from its last renewal. A broker of lanemq ends it with
        this connection, too.
        """
        return self._bridge.call(self._core.lock_queues, address, group, client_id, queues)

    def unlock_queues(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> None:
        """Give locks of a group back (42), those that the client has."""
        self._bridge.call(self._core.unlock_queues, address, group, client_id, queues)

    def offset_table(self, address: str) -> Mapping[str, Mapping[int, int]]:
        """Return the offsets that a broker keeps (43): ``topic@group`` -> queue id -> offset."""
        return self._bridge.call(self._core.offset_table, address)

    def delay_offsets(self, address: str) -> Mapping[int, int]:
        """Return how far delayed delivery is (45): level -> offset of the next message."""
        return self._bridge.call(self._core.delay_offsets, address)

    def reset_offsets(
        self, address: str, group: str, topic: str, timestamp_ms: int, *, force: bool
    ) -> dict[MessageQueue, int]:
        """Make the connected consumers of a group go to a time (222), -1 being the end.

        Without ``force`` no queue moves forward. Where nobody is connected, brokers of 5.x move
        the group's offsets, and others refuse with ``CONSUMER_NOT_ONLINE``. Stages of a stopped
        group stay as they are: see ``reset_offsets_by_time``.
        """
        return self._bridge.call(
            self._core.reset_offsets, address, group, topic, timestamp_ms, force=force
        )

    def consumer_offsets(
        self, address: str, group: str, topic: str, *, client_id: str = ""
    ) -> dict[str, dict[MessageQueue, int]]:
        """Return the progress of each member of a group, as the member says (223)."""
        return self._bridge.call(
            self._core.consumer_offsets, address, group, topic, client_id=client_id
        )

    def running_info(
        self, address: str, group: str, client_id: str, *, stack: bool = False
    ) -> ConsumerRunningInfo:
        """Return what a consumer says about itself (307), relayed by the broker."""
        return self._bridge.call(self._core.running_info, address, group, client_id, stack=stack)

    def consume_directly(
        self, address: str, group: str, client_id: str, offset_id: str
    ) -> ConsumeMessageDirectlyResultBody:
        """Make one consumer consume one message now (309), relayed by the broker."""
        return self._bridge.call(self._core.consume_directly, address, group, client_id, offset_id)

    def time_span(self, address: str, group: str, topic: str) -> QueryConsumeTimeSpanBody:
        """Return first, last and consumed store time of each queue (303)."""
        return self._bridge.call(self._core.time_span, address, group, topic)

    def clone_offsets(
        self, address: str, source: str, target: str, topic: str, *, offline: bool = True
    ) -> None:
        """Copy the offsets of group ``source`` to group ``target`` (314)."""
        self._bridge.call(self._core.clone_offsets, address, source, target, topic, offline=offline)


class MessageRequests:
    """Requests, one method each."""

    _core: AdminClient
    _bridge: Bridge

    def message_at(
        self, address: str, log_position: int, *, topic: str = ""
    ) -> StoredMessage | None:
        """Return the message at a byte of the commit log (33), None where there is none."""
        return self._bridge.call(self._core.message_at, address, log_position, topic=topic)

    def query(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = LONG_MAX,
    ) -> list[StoredMessage]:
        """Return messages of ``topic`` with a key, or with a unique key (12), newest first.

        The broker's index knows hashes only; messages with another key are left out here.
        """
        return self._bridge.call(
            self._core.query,
            address,
            topic,
            key,
            unique=unique,
            max_count=max_count,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def pull(
        self,
        address: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        max_count: int = 32,
        group: str = SystemGroup.TOOLS_CONSUMER,
    ) -> Pulled:
        """Read a queue from ``queue_offset`` on (11), without waiting for new messages.

        Raises ``BadAnswer`` for clearly more messages than ``max_count``.
        """
        return self._bridge.call(
            self._core.pull,
            address,
            queue,
            queue_offset,
            expression=expression,
            max_count=max_count,
            group=group,
        )

    def pull_records(
        self,
        address: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        expression_type: str = ExpressionType.TAG.value,
        max_count: int = 32,
        group: str = SystemGroup.TOOLS_CONSUMER,
    ) -> PulledRecords:
        """Read a queue as ``pull`` does, and leave the records as they are.

        A broker judges tags by their hashes: others may be among them. Raises ``BadAnswer`` for
        clearly more messages than ``max_count``.
        """
        return self._bridge.call(
            self._core.pull_records,
            address,
            queue,
            queue_offset,
            expression=expression,
            expression_type=expression_type,
            max_count=max_count,
            group=group,
        )

    def check_filter(self, address: str, topic: str, condition: str) -> None:
        """Ask a broker whether it can filter ``topic`` by a condition in SQL92 (46).

        Raises ``RefusedByBroker`` if it cannot: the condition is wrong, or the broker does not
        filter by properties (``enablePropertyFilter``).
        """
        self._bridge.call(self._core.check_filter, address, topic, condition)

    def queue_units(
        self, address: str, queue: MessageQueue, start: int, count: int
    ) -> QueryConsumeQueueBody:
        """Return entries of a queue's index (321)."""
        return self._bridge.call(self._core.queue_units, address, queue, start, count)
