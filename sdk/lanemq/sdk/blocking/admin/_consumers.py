"""Generated from lanemq.sdk.admin.requests._consumers by sdk/tools/generate_faces.py."""

from collections.abc import Mapping

from lanemq.wire.bodies import (
    ConsumeMessageDirectlyResultBody,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    MessageQueue,
    ProducerConnection,
    QueryConsumeTimeSpanBody,
)

from ...admin._client import AdminClient
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
        """Return the connected members of a group (203), None where nobody is."""
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

        Without ``force`` no queue moves forward. Refused with ``CONSUMER_NOT_ONLINE`` where
        nobody is connected.
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
