"""A proxy's status for Prometheus."""

from collections.abc import Callable, Iterator
from typing import Final, final

from ..net._loop_watch import loop_watch
from ..net.http._exposition import Family, Samples
from ._open import RunningGateway
from ._seen_port import SeenPort
from .moves._queues import MovingQueues
from .order._moved import MovedQueue

_OF_BROKERS: Final[tuple[tuple[str, str, Callable[[SeenPort], int]], ...]] = (
    ("broker_sessions", "Connections to the broker.", lambda port: port.links),
    ("broker_requests_total", "Requests passed on.", lambda port: port.counts.requests),
    ("broker_answers_total", "Answers passed on.", lambda port: port.counts.answers),
    ("broker_refused_total", "Requests refused.", lambda port: port.counts.refused),
)


@final
class GatewayFamilies:
    """The metrics of one proxy."""

    def __init__(self, running: RunningGateway) -> None:
        self._running = running

    def all(self) -> Iterator[Family]:
        """Iterate over the metrics."""
        running, watch = self._running, loop_watch()
        budget, routes = running.budget, running.routes
        for name, text, value in (
            ("routes_total", "Routes that clients asked for.", routes.seen.routes),
            ("kept_routes_total", "Of these, answered without a name server.", routes.seen.kept),
            ("refused_total", "Requests of brokers.", routes.seen.refused),
            ("upstream_answers", "1 if a name server answers.", not routes.why_unanswered),
            ("peers", "Other proxies that live.", len(running.peers.living)),
            ("loop_longest_turn_seconds", "Since the start.", watch.longest_s),
            ("loop_held_total", "Turns longer than 100 ms.", watch.held),
            ("peer_memory_bytes", "Memory kept for all clients.", budget.used_bytes),
            ("peer_memory_limit_bytes", "Its bound.", budget.limit_bytes),
            ("connections", "Connections of clients.", budget.peers),
        ):
            yield Family(f"lanemq_proxy_{name}", text, (), [((), float(value))])
        orders = running.orders
        if orders is not None:
            for name, text, value in (
                ("topics_in_other_order", "Topics not in the cluster's order.", len(orders.others)),
                ("order_log_lag", "Records of the order not applied yet.", orders.log.lag),
                ("order_known", "1 if the order of queues is known.", not orders.why_unknown),
            ):
                yield Family(f"lanemq_proxy_{name}", text, (), [((), float(value))])
        members = running.members
        if members is not None:
            for name, text, value in (
                ("direct_groups", "Groups with members who go direct.", len(members.groups)),
                ("divided_groups", "Of these, with other members, too.", members.both_ways),
            ):
                yield Family(f"lanemq_proxy_{name}", text, (), [((), float(value))])
        moving, left = running.moving, running.left
        if moving is not None and left is not None:
            for name, text, counts in (
                ("moved_queues", "Queues that have moved.", _has_moved),
                ("moving_queues", "Queues that are on their way.", _is_on_its_way),
            ):
                yield Family(f"lanemq_proxy_{name}", text, (), _counted(moving, counts))
            for name, text, value in (
                ("lease_seconds", "Time for which its lease lasts.", moving.lease.left_s),
                ("moves_total", "Moves that this process has seen end.", moving.moves),
                ("drained_brokers", "Brokers for which others stand in.", len(moving.stands.known)),
                ("sent_again_total", "Messages sent to a queue's open end again.", left.sent),
                ("passed_over_total", "Messages that their clients sent again.", left.passed_over),
            ):
                yield Family(f"lanemq_proxy_{name}", text, (), [((), float(value))])
        for name, text, number in _OF_BROKERS:
            yield Family(
                f"lanemq_proxy_{name}",
                text,
                ("broker", "address", "upstream"),
                [
                    ((str(key), str(port.address), port.upstream), float(number(port)))
                    for key, port in running.brokers.ports.items()
                ],
            )


def _counted(moving: MovingQueues, counts: Callable[[MovedQueue], bool]) -> Samples:
    count = 0
    for _, moved in moving.all():
        count += counts(moved)
        yield 1
    yield (), count


def _has_moved(queue: MovedQueue) -> bool:
    return len(queue.parts) > 1


def _is_on_its_way(queue: MovedQueue) -> bool:
    return queue.target is not None
