"""Records of brokers, rewritten as clients of one port see them."""

from functools import partial
from typing import final

from lanemq.wire import HostAddress
from lanemq.wire.logical import LogicalQueues, Segment, segment_at
from lanemq.wire.message import encode_offset_id

from ....net._turns import Steps
from ...rules._positions import broker_tag, tagged
from ...rules._records import chosen_records, in_pieces, rewrite_records, shift_records
from ..brokers._views import TopicView
from ._queues import SeenQueues


@final
class SeenRecords:
    """The rewriting of records for one port: another broker may send very many, so it is done in
    steps."""

    def __init__(self, *, address: HostAddress, queues: SeenQueues) -> None:
        self._address = address
        self._packed = address.packed
        self._queues = queues

    def offset_id(self, broker_name: str, log_position: int) -> str:
        """Return the id by which a message is found at any listener."""
        return encode_offset_id(self._address, tagged(broker_tag(broker_name), log_position))

    def records_of(self, records: bytes, segment: Segment) -> bytes:
        """Return records of one segment, as they are in the logical queue."""
        return shift_records(
            records,
            index=self._queues.queue_id_of(segment),
            shift=segment.shift,
            tag=broker_tag(segment.broker_name),
            store_host=self._packed,
        )

    def many_of(self, records: bytes, segment: Segment) -> Steps[bytes]:
        """Do the same in steps."""
        return in_pieces(records, lambda piece: self.records_of(piece, segment))

    def before_end(self, records: bytes, segment: Segment) -> Steps[bytes]:
        """Return the records of a message queue that stand before the end of a segment on it."""
        is_before = partial(chosen_records, is_chosen=lambda _, offset: segment.keeps(offset))
        return in_pieces(records, is_before)

    def seen_records(self, records: bytes, broker_name: str, view: TopicView) -> Steps[bytes]:
        """Return the records in queues that clients see here, rewritten as by ``records_from``; the
        first broker also has those in none."""
        brokers, number = self._queues.brokers_of(view), self._queues.number or 0
        by_queue = view.queues.by_queue(broker_name)

        def is_seen(queue_id: int, queue_offset: int) -> bool:
            segment = segment_at(by_queue.get(queue_id, ()), queue_offset)
            if segment is None or not segment.contains_physical(queue_offset):
                return number == 0
            return segment.logical_index % brokers == number

        if brokers > 1:
            records = yield from in_pieces(records, partial(chosen_records, is_chosen=is_seen))
        return (yield from self.records_from(records, broker_name, view.queues))

    def records_from(
        self, records: bytes, broker_name: str, queues: LogicalQueues | None
    ) -> Steps[bytes]:
        """Rewrite records of any queues of a broker; outside of logical queues they keep their
        places."""
        by_queue = queues.by_queue(broker_name) if queues is not None else {}

        def place(queue_id: int, queue_offset: int) -> tuple[int, int]:
            segment = segment_at(by_queue.get(queue_id, ()), queue_offset)
            if segment is None or not segment.contains_physical(queue_offset):
                return queue_id, queue_offset
            return self._queues.queue_id_of(segment), segment.to_logical(queue_offset)

        tag = broker_tag(broker_name)
        rewritten = partial(rewrite_records, place=place, tag=tag, store_host=self._packed)
        return in_pieces(records, rewritten)
