"""Every server serves exactly what is declared for it, and nothing that declares no resource."""

from pathlib import Path

import pytest
import trio

from lanemq.proxy.gateway import open_gateway
from lanemq.proxy.nameserver import NameServerConfig
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver.routes._table import RouteTable
from lanemq.proxy.net._dispatch import Handlers
from lanemq.testkit.logical.cluster import open_logical_cluster
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.testkit.proxy.gateways import gateway_config
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.requests import REQUESTS, Port

ACCOUNTS = "accounts:\n  - {accessKey: chief12, secretKey: of-chief, admin: true}\n"


def declared(port: Port) -> set[int]:
    return {code for code, spec in REQUESTS.items() if port in spec.ports}


async def test_the_name_server_serves_what_is_declared() -> None:
    handlers = Handlers(Port.NAME_SERVER)
    config = NameServerConfig()
    NameServerHandlers(config, RouteTable(), KVConfig(None), now_s=trio.current_time).add_to(
        handlers
    )
    assert handlers.codes() == declared(Port.NAME_SERVER)


async def test_brokers_serve_what_is_declared_with_one_kind_of_accounts_or_the_other(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "conf" / "plain_acl.yml"
    conf.parent.mkdir()
    conf.write_text(ACCOUNTS)
    async with open_test_broker(tmp_path / "4", acl_enable=True, rocketmq_home=tmp_path) as broker:
        served = broker.broker.handlers.codes()
    async with open_test_broker(
        tmp_path / "5",
        authentication_enabled=True,
        init_authentication_user='{"username":"chief","password":"of-chief"}',
    ) as broker:
        served |= broker.broker.handlers.codes()
    assert served == declared(Port.BROKER)


async def test_the_port_for_routes_of_a_proxy_serves_what_is_declared_for_proxies() -> None:
    config = gateway_config("127.0.0.1:1", keys=True, logical=True, moves=True)
    async with open_gateway(config) as proxy:
        served = proxy.server.handlers.codes()
    assert served >= declared(Port.PROXY)
    assert served - declared(Port.PROXY) <= declared(Port.NAME_SERVER)


@pytest.mark.slow  # a cluster of its own
async def test_listeners_serve_what_is_declared(autojump_clock: object) -> None:
    async with open_logical_cluster() as cluster:
        listener = cluster.brokers["broker1"].logical_listener
        assert listener is not None
        for server in listener.servers:
            assert server.handlers.codes() == declared(Port.LISTENER)


@pytest.mark.parametrize("port", list(Port))
def test_a_port_refuses_to_serve_what_is_not_declared_for_it(port: Port) -> None:
    def answer(frame: Frame, session: object) -> Frame:
        return frame.reply()

    for code in (*RequestCode, 0, -1, 4711):
        handlers = Handlers(port)
        if code in declared(port):
            handlers.add(code, answer)
            continue
        with pytest.raises(ValueError, match=f"request code {int(code)} is not declared for a"):
            handlers.add(code, answer)
        assert not handlers.codes()
