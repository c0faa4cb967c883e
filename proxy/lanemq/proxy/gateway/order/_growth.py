"""The growth of a topic's order: queues come in at its end. All pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from lanemq.storage.kv import KvMeta

from ..kv import MEMORY_BYTES_MAX, kept_bytes
from ._order import ADDED_MAX, BEHIND_MAX, NONE, QueueOrder, Run, sorts_before_added

ORDERS_BYTES_MAX: Final = MEMORY_BYTES_MAX // 4 * 3
"""Bytes of the log's entries, about, beyond which no topic gets an order, and none grows: the rest
is for leases, and for brokers that are to be drained."""
ORDER_BYTES_MAX: Final = 256 << 10
"""Bytes of one order; one of a hundred brokers has some thousand."""


def why_not_kept(meta: KvMeta, topic: str, value: bytes) -> str:
    """Return the reason why an order is not kept; empty if it may be.

    Whoever may register brokers, or make topics, decides how many orders there are and how long
    they are.
    """
    if kept_bytes(meta) > ORDERS_BYTES_MAX:
        return (
            "the orders of topics take three quarters of the log's memory, "
            f"{ORDERS_BYTES_MAX >> 20} MiB: new topics, and new queues, get none"
        )
    if len(value) > ORDER_BYTES_MAX:
        return (
            f"topic {topic} has queues at too many brokers: its order would have {len(value)} "
            f"bytes, at most {ORDER_BYTES_MAX} are kept, so new queues are not seen"
        )
    return ""


def extended(
    order: QueueOrder,
    told: Mapping[str, int],
    behind: Sequence[str],
    written: Mapping[str, int] = NONE,
) -> tuple[QueueOrder, tuple[str, ...]]:
    """Return the order with all queues of the brokers ``told``, and the brokers behind added ones.

    Of a move that was called off there is a queue that nobody sees: it comes in, too, once it can
    be ``written``, by how many queues of each broker can. Producers that go direct write there.

    ``behind`` has the brokers of the cluster that have queues at added ones in any topic. Queues
    for which there would be more than ``ADDED_MAX`` added brokers, or more than ``BEHIND_MAX``
    brokers behind them, stay out.
    """
    left_over = order.left_over(written)
    new = [(broker, number, number + 1) for broker, number in left_over]
    new += (
        (broker, order.known_of(broker), count)
        for broker, count in told.items()
        if sorts_before_added(broker) and count > order.known_of(broker)
    )
    first, kept = dict(order.first), set(order.kept)
    last = max(first, default="")
    apart = {broker for broker, _ in kept - {*left_over}}
    runs, all_behind = list(order.runs), list(behind)
    for broker, start, end in sorted(new):
        last_run = runs[-1] if runs else None
        if not order.runs and broker >= last and broker not in apart:
            first[broker] = end
        elif last_run is not None and (last_run.broker, last_run.end) == (broker, start):
            runs[-1] = replace(last_run, count=end - last_run.start)
        else:
            number = 0 if last_run is None else last_run.number + 1
            if broker not in all_behind and len(all_behind) < BEHIND_MAX:
                all_behind.append(broker)
            if number >= ADDED_MAX or broker not in all_behind:
                continue
            runs.append(Run(number, broker, start, end - start))
        kept -= {(broker, start)}
    seen = replace(
        order,
        first=tuple(sorted(first.items())),
        runs=tuple(runs),
        kept=tuple(one for one in order.kept if one in kept),
    )
    return seen, tuple(all_behind)
