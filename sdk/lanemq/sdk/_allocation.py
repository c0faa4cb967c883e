"""Which queues of a topic a consumer of a group reads: a pure function.

Every client of a group computes the same division from the same two lists, so none has to ask.
Source: RocketMQ 4.9.8, AllocateMessageQueueAveragely.
"""

from collections.abc import Callable, Sequence

from lanemq.wire import MessageQueue

Allocate = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""(own client id, sorted queues, sorted client ids) -> the queues of this client."""


def allocate_averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Give each client a run of neighbouring queues; no two clients differ by more than one.

    ``queues`` and ``client_ids`` are sorted and free of duplicates. A client that is not in
    ``client_ids`` gets nothing: the broker does not know it (yet).
    """
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    size, longer = divmod(len(queues), len(client_ids))
    start = index * size + min(index, longer)  # the first `longer` clients take one more
    return list(queues[start : start + size + (index < longer)])
