"""Plans to drain a broker behind a proxy while moves have begun."""

from types import SimpleNamespace
from typing import Any

import pytest

from lanemq.sdk.admin.cli.logical._proxy_drain import ProxyCluster
from lanemq.wire.bodies import ProxiedQueues, TopicConfig


@pytest.mark.parametrize(
    ("target", "plan"),
    [
        ("c", [(1, "b", "c"), (0, "b", "a")]),
        ("b", [(2, "a", "b"), (0, "b", "a"), (1, "b", "c"), (2, "b", "a")]),
    ],
)
async def test_moves_that_have_begun_are_kept_in_a_plan(
    target: str, plan: list[tuple[int, str, str]], autojump_clock: object
) -> None:
    targets = ("", "c", "") if target == "c" else ("", "", "b")
    told = ProxiedQueues("T", ("b", "b", "a"), targets=targets)

    async def nothing(*_: object) -> None:
        """Answer."""

    async def queues(*_: object) -> ProxiedQueues:
        return told

    async def configs(*_: object) -> object:
        return SimpleNamespace(topic_config_table={"T": TopicConfig("T")})

    async def status(*_: object) -> object:
        return SimpleNamespace(moves=None)

    admin: Any = SimpleNamespace(
        name_servers=["p:1"],
        route=nothing,
        proxied_queues=queues,
        topic_configs=configs,
        proxy_status=status,
    )
    proxy = ProxyCluster(admin, {name: f"{name}:1" for name in "abc"}, ())
    moves = await proxy.plan_drain("b")
    assert [(one.index, one.source, one.destination) for one in moves] == plan
