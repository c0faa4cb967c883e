"""Chains of logical queues as a table and as JSON."""

from collections.abc import Iterable

from lanemq.wire.logical import Chain, Segment

from ..command._command import Output

COLUMNS = "{:<14} {:<32} {:<9} {:<16} {:<16} {:<16} {}"
TITLES = (
    *("#LogicalQueue", "#Broker", "#QueueId", "#Delta", "#OffsetDelta", "#OffsetMax"),
    "#State",
)


def write_chains(out: Output, chains: Iterable[Chain]) -> None:
    """Write one line for each segment."""
    out.line(COLUMNS.format(*TITLES))
    for chain in chains:
        for segment in chain:
            out.line(
                COLUMNS.format(
                    chain.index,
                    segment.broker_name[:32],
                    segment.queue_id,
                    segment.delta,
                    segment.offset_delta,
                    segment.offset_max,
                    segment.state.value,
                )
            )


def merge_order(segment: Segment) -> tuple[int, str, str, int, int]:
    """Return mqadmin's sort key for what several brokers say of one logical queue."""
    queue = segment.message_queue
    return (
        segment.delta,
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        segment.state.ordinal,
    )
