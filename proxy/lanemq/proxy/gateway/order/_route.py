"""The route of a topic as clients see it, by the order of its queues. All pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from lanemq.wire import (
    DLQ_PREFIX,
    LEGAL_NAME,
    MAX_GROUP_CHARACTERS,
    REPLY_POSTFIX,
    RETRY_PREFIX,
    ROUTE_QUEUES_MAX,
    Permission,
    is_system_topic,
)
from lanemq.wire.bodies import MASTER_ID, BrokerData, QueueData, RouteData

from ._order import QueueOrder, Run, sorts_before_added

OWN_PREFIX: Final = "LANEMQ_"
"""Begin of the names of topics that proxies make for themselves."""
PROXIED: Final = f"{OWN_PREFIX}PROXIED"
"""The producer group of all clients that see orders which proxies keep."""
LMQ_PREFIX: Final = "%LMQ%"
TOPIC_CHARACTERS_MAX: Final = len(RETRY_PREFIX) + MAX_GROUP_CHARACTERS
"""The longest name of a topic: that of the retries of a group."""
_UNORDERED: Final = (OWN_PREFIX, LMQ_PREFIX, RETRY_PREFIX, DLQ_PREFIX)
_COUNT_DIGITS: Final = 5
_MAPPINGS: Final = ("topicQueueMappingByBroker", "logicalQueuesInfo", "logicalQueuesInfoUnordered")
"""Members of routes of topics that have an order of their own: static ones of 5.x, and those of
5.0.0-PREVIEW."""


def queues_told(route: RouteData) -> dict[str, int]:
    """Return how many queues each broker has, for readers, writers or both.

    An order has no more than ``ROUTE_QUEUES_MAX`` of one broker: others have no place in it.
    """
    return {
        one.broker_name: min(one.queue_count, ROUTE_QUEUES_MAX)
        for one in route.queue_datas
        if one.queue_count > 0
    }


def queues_written(route: RouteData) -> dict[str, int]:
    """Return how many queues of each broker can be written."""
    return {
        one.broker_name: min(one.write_queue_nums, ROUTE_QUEUES_MAX)
        for one in route.queue_datas
        if one.perm & Permission.WRITE
    }


def may_have_order(topic: str) -> bool:
    """Return whether the order of a topic of this name can be kept.

    The topics of a group's retries and dead letters appear at one broker after another, as members
    register and messages fail. No message is sent there by its key, and clients divide their queues
    in the cluster's order, which direct members have, too (RebalanceImpl.rebalanceByTopic).
    """
    return not (
        is_system_topic(topic)
        or topic.startswith(_UNORDERED)
        or topic.endswith(f"_{REPLY_POSTFIX}")
        or len(topic) > TOPIC_CHARACTERS_MAX
        or not LEGAL_NAME.fullmatch(topic)
    )


def has_order(topic: str, route: RouteData) -> bool:
    """Return whether the order of a topic's queues is kept.

    It is not for topics that brokers make for themselves, which they have whether clients see them
    or not, and for those that have an order of their own.
    """
    if not may_have_order(topic):
        return False
    of_brokers = {name for one in route.broker_datas for name in (one.cluster, one.broker_name)}
    return topic not in of_brokers and not any(route.extra.get(name) for name in _MAPPINGS)


def seen_route(
    route: RouteData, order: QueueOrder, addresses: Callable[[str], Mapping[int, str]]
) -> RouteData:
    """Return a route with the queues at the places where clients see them.

    Queues that the order has not are left out. ``addresses`` gives those of an added broker by its
    name, for all topics that share it: clients have one list of them. Queues whose own broker has
    no master can be read only, as clients leave a broker without one out. All brokers of the
    cluster stay in the route, also those whose queues are all seen at added ones: there clients
    register, and ask for the members of groups.
    """
    told = _with_permissions(route, order)
    queues = [_first(one, order) for one in told.values()]
    behind = {one.broker_name: one for one in route.broker_datas}
    queues += [
        _added(told[run.broker], run, behind.get(run.broker))
        for run in order.runs
        if run.broker in told
    ]
    brokers = [
        BrokerData(behind[run.broker].cluster, run.name, dict(at))
        for run in order.runs
        if run.broker in behind and (at := addresses(run.name))
    ]
    return replace(
        route,
        queue_datas=tuple(one for one in queues if one.queue_count > 0),
        broker_datas=(*route.broker_datas, *brokers),
        order_topic_conf=_seen_conf(route.order_topic_conf, order),
    )


def with_gone(route: RouteData, order: QueueOrder, gone: Mapping[str, str]) -> RouteData:
    """Return a route with the brokers that are drained and not there, whose queues have moved on.

    ``gone`` has the address of each for clients.
    """
    there = {one.broker_name: one for one in route.broker_datas}
    names = sorted(gone)
    cluster = next((one.cluster for one in route.broker_datas), "")
    brokers = [
        BrokerData(cluster, name, {MASTER_ID: gone[name]})
        if name not in there
        else replace(there[name], broker_addrs={**there[name].broker_addrs, MASTER_ID: gone[name]})
        for name in names
    ]
    told = {one.broker_name for one in route.queue_datas}
    counts = {name: order.known_of(name) for name in names if name not in told}
    queues = [QueueData(name, count, count, Permission.READ) for name, count in counts.items()]
    others = [one for one in route.broker_datas if one.broker_name not in names]
    return replace(
        route,
        queue_datas=(*route.queue_datas, *queues),
        broker_datas=tuple(sorted((*others, *brokers), key=lambda one: one.broker_name)),
    )


def _with_permissions(route: RouteData, order: QueueOrder) -> dict[str, QueueData]:
    """Return the queues of each broker; where all have moved on, with the permissions of the
    brokers of their open ends: at the first one nobody is to write."""
    told = {one.broker_name: one for one in route.queue_datas}
    found = dict(told)
    for name in told if order.moved else ():
        ends = set(order.ends_of(name))
        if ends and name not in ends:
            perm = told[name].perm
            for end in ends & told.keys():
                perm |= told[end].perm
            count = max(told[name].queue_count, told[name].write_queue_nums)
            found[name] = replace(told[name], perm=perm, write_queue_nums=count)
    return found


def _first(told: QueueData, order: QueueOrder) -> QueueData:
    if not sorts_before_added(told.broker_name):
        return told
    return _cut(told, told.broker_name, 0, order.first_of(told.broker_name))


def _added(told: QueueData, run: Run, behind: BrokerData | None) -> QueueData:
    seen = _cut(told, run.name, run.start, run.count)
    is_taking = behind is None or MASTER_ID in behind.broker_addrs
    return seen if is_taking else replace(seen, write_queue_nums=0)


def _cut(told: QueueData, name: str, start: int, count: int) -> QueueData:
    return replace(
        told,
        broker_name=name,
        read_queue_nums=min(max(0, told.read_queue_nums - start), count),
        write_queue_nums=min(max(0, told.write_queue_nums - start), count),
    )


def _seen_conf(conf: str | None, order: QueueOrder) -> str | None:
    """Return the queues that an operator has set for ordered messages: ``broker:4;broker:4``."""
    if not conf:
        return conf
    told: dict[str, int] = {}
    for item in conf.split(";"):
        broker, _, count = item.partition(":")
        if not count.isdecimal() or len(count) > _COUNT_DIGITS:
            return conf  # clients cannot read it either
        told[broker] = int(count)
    seen = {
        broker: min(count, order.first_of(broker)) if sorts_before_added(broker) else count
        for broker, count in told.items()
    }
    for run in order.runs:
        seen[run.name] = min(max(0, told.get(run.broker, 0) - run.start), run.count)
    return ";".join(f"{broker}:{count}" for broker, count in seen.items() if count)
