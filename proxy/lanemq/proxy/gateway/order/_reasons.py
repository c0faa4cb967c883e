"""Reasons why clients do not see some queues, or get no routes, with the way on."""

from collections.abc import Iterable, Mapping
from typing import Final

from lanemq.local import get_logger
from lanemq.wire import Refused, ResponseCode

from ..kv import FILE
from ._order import ADDED_MAX, QueueOrder

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)


def unseen(topic: str) -> str:
    """Return the reason why some queues of a topic are not seen."""
    return (
        f"topic {topic}: new queues are not seen, since it has grown {ADDED_MAX} times at another "
        "broker than before: create another topic with all queues at once, and move clients there"
    )


def unserved(topic: str) -> Refused:
    """Return the refusal for a topic whose moved queues this proxy does not serve."""
    remark = f"queues of topic {topic!a} have moved: start this proxy with --moves"
    return Refused(ResponseCode.SYSTEM_ERROR, remark)


def unreadable(topic: str) -> Refused:
    """Return the refusal for a topic with an order that cannot be read."""
    remark = f"topic {topic!a} has an order of queues that this proxy cannot read; its log says why"
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)


def unsigned(remark: str | None, name: str) -> str:
    """Return the refusal of a broker with accounts at an added broker, with its cause."""
    return (
        f"{remark}; a proxy changes requests at {name}, so no signature of a client holds there: "
        "before a cluster with accounts start proxies without --logical"
    )


def begin_again(topics: Iterable[str]) -> str:
    """Return how to begin the order again, behind the reason why it is lost; ``topics`` have it."""
    names = " and ".join(f"'{one}'" for one in topics)
    return (
        ". No proxy ran for longer than the cluster keeps messages, and the order is lost. Stop "
        f"all proxies, delete topics {names} (mqadmin deleteTopic), remove {FILE} from each --data,"
        " and start the proxies: the order that the cluster has then is kept from there on"
    )


def say_added(topic: str, before: QueueOrder, now: QueueOrder, written: Mapping[str, int]) -> None:
    """Say which queues of a topic are seen at its end from now on, and of an order that begins at
    which brokers none can be ``written``: so it is where queues had moved, and the log was lost."""
    closed = [] if before.first else [broker for broker, _ in now.first if not written.get(broker)]
    if closed:
        LOGGER.warning(
            "topic %s: no queue can be written at %s. If they had moved, and the log of their order"
            " was lost, updateTopic gives permission (-p 6) and queues to writers (-w)",
            topic,
            ", ".join(closed),
        )
    for run in now.runs[max(0, len(before.runs) - 1) :]:
        if run not in before.runs:
            LOGGER.info(
                "topic %s: queues %d to %d of broker %s are seen at %s, behind all others",
                topic,
                run.start,
                run.end - 1,
                run.broker,
                run.name,
            )
