"""Addresses of brokers in the routes of several topics, of which some are no longer refreshed."""

from types import SimpleNamespace
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk.net._routes import Routes
from lanemq.wire.bodies import BrokerData, QueueData, RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetRouteInfo

TOPICS, BROKERS = ("T", "U", "V"), ("a", "b")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(TOPICS)),
        st.tuples(st.just("restart"), st.sampled_from(BROKERS)),
        st.tuples(
            st.sampled_from(("gain", "lose")), st.sampled_from(TOPICS), st.sampled_from(BROKERS)
        ),
    ),
    max_size=30,
)


class Cluster:
    """A name server: it answers with the present addresses."""

    def __init__(self) -> None:
        self.starts = dict.fromkeys(BROKERS, 0)
        self.topics = {topic: set(BROKERS) for topic in TOPICS}

    def address(self, broker: str) -> str:
        return f"{broker}.{self.starts[broker]}:10911"

    async def call(self, frame: Frame) -> Frame:
        await trio.lowlevel.checkpoint()
        names = sorted(self.topics[GetRouteInfo.from_fields(frame.fields).topic])
        data = RouteData(
            tuple(QueueData(name, 1, 1) for name in names),
            tuple(BrokerData("c", name, {0: self.address(name)}) for name in names),
        )
        return frame.reply(body=data.encode())


@given(STEPS)
def test_the_address_of_a_broker_is_the_one_told_last(steps: list[tuple[str, ...]]) -> None:
    async def main() -> None:
        cluster = Cluster()
        name_servers: Any = SimpleNamespace(call=cluster.call)
        routes = Routes(name_servers)
        told: dict[str, str] = {}
        listed: dict[str, set[str]] = {}
        for step, *names in steps:
            if step == "ask":
                await routes.refresh(names[0])
                listed[names[0]] = set(cluster.topics[names[0]])
                told.update((name, cluster.address(name)) for name in listed[names[0]])
            elif step == "restart":
                cluster.starts[names[0]] += 1
            elif step == "gain":
                cluster.topics[names[0]].add(names[1])
            else:
                cluster.topics[names[0]].discard(names[1])
            known = set().union(*listed.values())
            assert {name: routes.master(name) for name in routes.brokers()} == {
                name: told[name] for name in known
            }
            assert all(routes.reader(name) == told[name] for name in known)

    trio.run(main)
