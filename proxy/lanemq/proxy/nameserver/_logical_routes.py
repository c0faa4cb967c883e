"""The routes of a topic with logical queues, as each kind of client has to see it."""

from collections.abc import Collection
from dataclasses import replace
from typing import final

from lanemq.wire import MASTER_ID, BrokerData, Permission, QueueData, RouteData
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUES_MEMBER,
    Chain,
    LogicalQueues,
)

from ._listeners import Listener


@final
class RouteMaker:
    """Makes the routes of one topic, and remembers what keeps them steady."""

    def __init__(self) -> None:
        self._unwritable_since_s: dict[int, float] = {}

    def flagged(
        self,
        physical: RouteData,
        queues: LogicalQueues,
        listener: Listener | None,
        indices: Collection[int] | None = None,
    ) -> RouteData:
        """For a client that asks for logical queues: these, and all brokers.

        A listener is one broker more: there such clients keep offsets and locks, by logical
        index. ``orderTopicConf`` would make them use physical queues. Neither member for
        logical queues may ever be null.
        """
        shown = [chain for index, chain in queues.items() if indices is None or index in indices]
        brokers = physical.broker_datas
        if listener is not None:
            brokers = (*brokers, _broker(listener))
        return replace(
            physical,
            broker_datas=brokers,
            order_topic_conf=None,
            extra={**physical.extra, LOGICAL_QUEUES_MEMBER: LogicalQueues(shown).to_json()},
        )

    def translated(
        self,
        physical: RouteData,
        queues: LogicalQueues,
        listener: Listener | None,
        now_s: float,
        wait_s: float,
    ) -> RouteData:
        """For a client of old: one broker with as many queues, if a listener translates.

        A queue that takes no messages is still offered for ``wait_s``: mostly it is being
        migrated. Then it is left out if it is one of the last.
        """
        if listener is None or not queues:
            return physical
        writable = [index for index, chain in queues.items() if self._takes(chain, now_s, wait_s)]
        permission = 0
        for data in physical.queue_datas:
            permission |= data.perm
        queue_data = QueueData(
            broker_name=LOGICAL_QUEUE_BROKER,
            read_queue_nums=max(queues) + 1,
            write_queue_nums=max(writable, default=-1) + 1,
            perm=permission & Permission.READ_WRITE,
            topic_sys_flag=physical.queue_datas[0].topic_sys_flag if physical.queue_datas else 0,
        )
        return RouteData(queue_datas=(queue_data,), broker_datas=(_broker(listener),))

    def _takes(self, chain: Chain, now_s: float, wait_s: float) -> bool:
        if chain.writable is not None:
            self._unwritable_since_s.pop(chain.index, None)
            return True
        since_s = self._unwritable_since_s.setdefault(chain.index, now_s)
        return now_s - since_s < wait_s


def _broker(listener: Listener) -> BrokerData:
    return BrokerData(
        cluster=listener.cluster,
        broker_name=LOGICAL_QUEUE_BROKER,
        broker_addrs={MASTER_ID: listener.address},
    )
