"""Batches made of messages, and the places of their messages, one by one."""

import itertools
from collections.abc import Sequence

from lanemq.storage import NewBatch, NewMessage, Put, PutBatch
from lanemq.wire.message import BatchEntry


def batch_of(messages: Sequence[NewMessage]) -> NewBatch:
    """Return a batch of ``messages``; what they share is taken from the first."""
    first = messages[0]
    return NewBatch(
        topic=first.topic,
        queue_id=first.queue_id,
        entries=[BatchEntry(one.flag, one.body, one.properties) for one in messages],
        born_timestamp_ms=first.born_timestamp_ms,
        born_host=first.born_host,
        store_host=first.store_host,
        sys_flag=first.sys_flag,
        reconsume_times=first.reconsume_times,
    )


def puts_of(batch: PutBatch) -> list[Put]:
    """Return the place of each message of a batch."""
    borders = itertools.pairwise((*batch.log_positions, batch.end))
    return [
        Put(start, batch.queue_offset + number, end - start, batch.store_timestamp_ms)
        for number, (start, end) in enumerate(borders)
    ]
