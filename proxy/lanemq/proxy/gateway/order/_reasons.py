"""Reasons why clients do not see some queues, or get no routes, with the way on."""

from collections.abc import Iterable

from ._order import ADDED_MAX


def unseen(topic: str) -> str:
    """Return the reason why some queues of a topic are not seen."""
    return (
        f"topic {topic}: new queues are not seen, since it has grown {ADDED_MAX} times at another "
        "broker than before: create another topic with all queues at once, and move clients there"
    )


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
        f"all proxies, delete topics {names} (mqadmin deleteTopic), and start the proxies: the "
        "order that the cluster has then is kept from there on"
    )
