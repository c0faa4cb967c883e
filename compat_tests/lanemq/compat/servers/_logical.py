"""lanemq with logical queues, for clients that know nothing of them.

Brokers and a name server. Every topic that is made through its control has its queues as logical
ones over all brokers. For scenarios they never rest: all the while one queue after the other is
migrated to the other broker, and a client must not be able to tell.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

import trio

from lanemq.sdk import LanemqError, NoRoute
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import logical_broker_number

from .._errors import ServerFailed
from ._clusters import TEST_SETTINGS, Cluster, lanemq_broker, lanemq_name_server
from ._control import Control
from ._ports import free_port
from ._waiting import PATIENT_S

BROKERS: Final = ("broker-a", "broker-b")
PAUSE_S: Final = 0.2
"""Pause between two migrations."""
TOPICS_MOVED: Final = 40
"""The youngest topics move; those before them have had their time."""
ROUTE_S: Final = 60.0

LOGICAL_SERVER: Final = "lanemq-logical"


@final
class LogicalControl(Control):
    """Makes topics whose queues are logical ones."""

    def __init__(self, name_server: str, brokers: Sequence[str] = BROKERS) -> None:
        super().__init__(name_server)
        self.brokers = tuple(brokers)
        self.topics: dict[str, int] = {}
        """Topics that it made, with the number of their queues."""
        self.moves: Counter[str] = Counter()
        """The ends of migrations."""

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic, map its queues, and wait until old clients are told of all of them.

        Topics of retries and dead letters are the brokers' own, and have no logical queues.
        """
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            await super().create_topic(topic, queues)
            return
        async with open_admin(name_servers=self.name_server, timeout_s=PATIENT_S) as admin:
            addresses = (await admin.cluster()).broker_addr_table
            masters = [addresses[name].broker_addrs[0] for name in self.brokers]
            index = 0
            for number, address in enumerate(masters):
                share = len(range(number, queues, len(masters)))
                await admin.put_topic(
                    address, TopicConfig(topic, read_queue_nums=share, write_queue_nums=share)
                )
                for queue_id in range(share):
                    await admin.map_queue(address, topic, queue_id, index)
                    index += 1
            with trio.move_on_after(ROUTE_S):
                # The name server tells nobody about a new route: asking again is the only way.
                while await self._told_queues(admin, topic) != queues:  # noqa: ASYNC110
                    await trio.sleep(0.05)
                self.topics[topic] = queues
                return
        raise ServerFailed(f"the name server never told of the {queues} queues of {topic}")

    async def writable_at(self, admin: AdminClient, topic: str, index: int) -> str | None:
        """Return the broker that takes a queue's messages; None while none is known to."""
        queues = await admin.routed_logical_queues(topic)
        normal = queues[index].normal if queues is not None and index in queues else None
        return normal.broker_name if normal is not None else None

    async def _told_queues(self, admin: AdminClient, topic: str) -> int:
        try:
            route = await admin.route(topic)
        except NoRoute:
            return 0
        return sum(
            queues.read_queue_nums
            for queues in route.queue_datas
            if logical_broker_number(queues.broker_name) is not None
        )


async def keep_moving(control: LogicalControl) -> None:
    """Migrate queue after queue, until cancelled; ``control.moves`` counts."""
    rng = random.Random(1)
    async with open_admin(name_servers=control.name_server, timeout_s=PATIENT_S) as admin:
        while True:
            await trio.sleep(PAUSE_S)
            topics = list(control.topics)[-TOPICS_MOVED:]
            if not topics:
                continue
            topic = rng.choice(topics)
            index = rng.randrange(control.topics[topic])
            try:
                broker = await control.writable_at(admin, topic, index)
                if broker is not None:
                    (other,) = set(BROKERS) - {broker}
                    await admin.migrate_logical_queue(topic, index, other)
                    control.moves["done"] += 1
            except (LanemqError, KeyError) as error:
                control.moves[str(error)[:200]] += 1


def logical_cluster(
    folder: Path,
    *,
    brokers: Sequence[str] = BROKERS,
    settings: Mapping[str, str] = TEST_SETTINGS,
    moving: bool = True,
) -> Cluster:
    """Describe the brokers, their name server, and (``moving``) what keeps their queues moving."""
    name_server_port = free_port()
    name_server = f"127.0.0.1:{name_server_port}"
    control = LogicalControl(name_server, brokers)
    daemons = [lanemq_name_server(folder / "namesrv", port=name_server_port)]
    daemons += [
        lanemq_broker(
            folder / name,
            port=free_port(1, -2),
            name_server=name_server,
            name=name,
            # A topic created on demand is on one broker, with that broker's own queues.
            settings={
                # Scenarios name queues by their logical index, at the one broker that has all.
                "logicalQueueBrokers": "1",
                **settings,
                "autoCreateTopicEnable": str(name == brokers[0]).lower(),
            },
        )
        for name in brokers
    ]
    return Cluster(
        LOGICAL_SERVER,
        name_server,
        folder,
        daemons,
        made_control=control,
        beside=partial(keep_moving, control) if moving else None,
    )
