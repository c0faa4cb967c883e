"""Addresses, numbers and ids in what passes through, replaced. All pure."""

from ._heartbeat import with_producer_group
from ._rewrite import (
    is_signed,
    with_addresses,
    with_fields,
    with_id_host,
    with_id_position,
    with_origin_ids,
    with_queue_ids,
    with_tags,
)

__all__ = [
    "is_signed",
    "with_addresses",
    "with_fields",
    "with_id_host",
    "with_id_position",
    "with_origin_ids",
    "with_producer_group",
    "with_queue_ids",
    "with_tags",
]
