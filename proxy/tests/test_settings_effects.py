"""Each of some settings, with two values, makes a broker do two different things.

Settings whose effect another test shows are named in ``test_settings_used.py``.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy._settings import ConfigError, apache_key
from lanemq.proxy.broker.cluster._peers import Peers
from lanemq.proxy.broker.settings._config import BrokerConfig
from lanemq.proxy.gateway import open_gateway
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import open_broker
from lanemq.proxy.tls import ProcessTls, TlsSettings
from lanemq.storage import FlushMode, KvEngine
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import SMALL_STORE, connected, open_test_broker
from lanemq.testkit.proxy.certificates import Authority
from lanemq.testkit.proxy.gateways import gateway_config
from lanemq.testkit.proxy.keys import Keys
from lanemq.testkit.servers import free_port
from lanemq.testkit.storage.tasks import Flusher, Housekeeping
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import RegisterBrokerBody
from lanemq.wire.headers import QueryMessage, RecallMessage, RegisterBroker
from lanemq.wire.message import decode_messages

Probe = Callable[[Path, dict[str, Any]], Awaitable[object]]
FIELDS: Final = {apache_key(one): one.name for one in BrokerConfig.__dataclass_fields__.values()}


@contextmanager
def recorded_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[float]]:
    """Yield the pauses and the time limits that tasks set, in seconds."""
    found: set[float] = set()
    sleep, limit = trio.sleep, trio.move_on_after

    async def recording_sleep(seconds: float) -> None:
        found.add(seconds)
        await sleep(seconds)

    def recording_limit(seconds: float, **more: bool) -> trio.CancelScope:
        found.add(seconds)
        return limit(seconds, **more)

    with monkeypatch.context() as patched:
        patched.setattr(trio, "sleep", recording_sleep)
        patched.setattr(trio, "move_on_after", recording_limit)
        yield found


def named(root: Path, pattern: str) -> list[Path]:
    """Return the files with a name of that pattern."""
    return sorted(root.glob(pattern))


# What a broker says and has


async def topic(name: str, root: Path, settings: dict[str, Any]) -> int | None:
    """Return the permission of a topic that the broker makes by itself."""
    async with open_test_broker(root, **settings) as broker:
        found = broker.context.topics.get(name)
        return None if found is None else found.perm


async def answered(name: str, root: Path, settings: dict[str, Any]) -> str | None:
    async with open_test_broker(root, **settings) as broker:
        return (await broker.connect().send()).fields.get(name)


async def timer(seconds: str, root: Path, settings: dict[str, Any]) -> bool:
    """Return whether a message may wait for so long."""
    async with open_test_broker(root, **settings) as broker:
        answer = await broker.connect().send("T", b"x", {"TIMER_DELAY_SEC": seconds})
        return answer.code == 0


async def recall(root: Path, settings: dict[str, Any]) -> bool:
    """Return whether a broker that takes no messages reads a recall."""
    async with open_test_broker(root, broker_permission=4, **settings) as broker:
        header = RecallMessage("pg", "T", "no handle")
        answer = await broker.connect().call(RequestCode.RECALL_MESSAGE, header.to_fields())
        return "not available" not in (answer.remark or "")


async def changed(root: Path, settings: dict[str, Any]) -> bool:
    """Return whether a tool may change the broker's permission."""
    async with open_test_broker(root, **settings) as broker:
        body = b"brokerPermission=4"
        answer = await broker.connect().call(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        return answer.code == 0


def size_of(pattern: str) -> Probe:
    """Return a probe of the size of the first file with a name of that pattern."""

    async def probe(root: Path, settings: dict[str, Any]) -> int:
        async with open_test_broker(root, **settings) as broker:
            await broker.connect().send("T", b"x", {"KEYS": "k", "TIMER_DELAY_SEC": "1000"})
            await broker.context.store.flushed(broker.context.store.max_position)
            with trio.fail_after(60):
                while not (found := named(root, pattern)):  # noqa: ASYNC110 - nobody tells
                    await trio.sleep(0.05)
        return found[0].stat().st_size

    return probe


async def log_directory(root: Path, settings: dict[str, Any]) -> bool:
    """Return whether the log is where it is by itself."""
    settings = {name: root / value for name, value in settings.items() if value}
    async with open_test_broker(root, **settings) as broker:
        await broker.connect().send()
    return any((root / "commitlog").glob("0*"))


async def engine(root: Path, settings: dict[str, Any]) -> bool:
    """Return whether keys are in a database on the disk."""
    async with open_test_broker(root, **settings) as broker:
        await Keys(broker.connect()).put(b"k", b"v")
    return bool(named(root, "**/MANIFEST-*"))


async def after_damage(root: Path, settings: dict[str, Any]) -> int:
    """Return how many messages are read after a kill, one of two having been damaged."""
    async with open_test_broker(root) as broker:
        for body in (b"first" * 20, b"second" * 20):
            await broker.connect().send("T", body)
    (log,) = (root / "commitlog").glob("0*")
    data = bytearray(log.read_bytes())
    data[data.index(b"second")] ^= 1
    log.write_bytes(data)
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    async with open_test_broker(root, **settings) as broker:
        return len(await broker.connect().messages("T"))


ROWS: Final[list[tuple[str, Probe, dict[Any, object]]]] = []


def row(key: str, probe: Probe, outcomes: dict[Any, object]) -> None:
    """Add what the probe finds with each value of a setting."""
    ROWS.append((key, probe, outcomes))


def with_name(probe: Callable[..., Awaitable[object]], name: str) -> Probe:
    return lambda root, settings: probe(name, root, settings)


row("brokerClusterName", with_name(topic, "Other"), {"Other": 7, "One": None})
row("clusterTopicEnable", with_name(topic, "DefaultCluster"), {True: 7, False: 1})
row("brokerTopicEnable", with_name(topic, "broker-a"), {True: 7, False: 1})
row("traceTopicEnable", with_name(topic, "RMQ_SYS_TRACE_TOPIC"), {True: 6, False: None})
row(
    "msgTraceTopicName",
    lambda root, given: topic("TRACES", root, {"trace_topic_enable": True, **given}),
    {"TRACES": 6, "OTHERS": None},
)
row("regionId", with_name(answered, "MSG_REGION"), {"here": "here", "there": "there"})
row("traceOn", with_name(answered, "TRACE_ON"), {True: "true", False: "false"})
row("timerMaxDelaySec", with_name(timer, "100"), {99: False, 101: True})
row("allowRecallWhenBrokerNotWriteable", recall, {True: True, False: False})
row("configBlackList", changed, {"": True, "a;brokerPermission": False})
row("maxHashSlotNum", size_of("index/*"), {1000: 84_040, 2000: 88_040})
row("mappedFileSizeTimerLog", size_of("timerlog/*"), {1 << 16: 1 << 16, 1 << 17: 1 << 17})
row("storePathCommitLog", log_directory, {None: True, "elsewhere": False})
row("kvEngine", engine, {KvEngine.ROCKSDB: True, KvEngine.MEMORY: False})
row("checkCRCOnRecover", after_damage, {True: 1, False: 2})


@pytest.mark.parametrize(("key", "probe", "outcomes"), ROWS, ids=[f"{key}" for key, _, _ in ROWS])
async def test_a_setting_has_an_effect(
    key: str, probe: Probe, outcomes: dict[Any, object], tmp_path: Path
) -> None:
    found = {}
    for number, value in enumerate(outcomes):
        root = tmp_path / str(number)
        root.mkdir()
        found[value] = await probe(root, {FIELDS[key]: value})
    assert found == outcomes
    assert len(set(found.values())) == 2


# How long tasks wait


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("flushIntervalCommitLog", {}),
        ("flushIntervalConsumeQueue", {}),
        ("flushConsumerOffsetInterval", {}),
        ("flushDelayOffsetInterval", {}),
        ("cleanResourceInterval", {}),
        ("timerFlushIntervalMs", {}),
        ("transactionCheckInterval", {}),
        ("syncFlushTimeout", {"flush_disk_type": FlushMode.SYNC}),
    ],
)
async def test_a_task_waits_as_long_as_its_setting_says(
    key: str,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    unusual_ms = 12_345
    for value, is_there in ((unusual_ms, True), (unusual_ms - 1, False)):
        with recorded_pauses(monkeypatch) as pauses:
            given = {FIELDS[key]: value, **settings}
            async with open_test_broker(tmp_path / str(value), **given) as broker:
                await broker.connect().send()
                await trio.sleep(70)  # the first cleaning is a minute after the start
        assert (unusual_ms / 1000 in pauses) is is_there


@pytest.mark.parametrize(
    "key", ["forward_timeout", "logical_queue_seal_timeout", "logical_queue_reconcile_interval"]
)
async def test_a_broker_with_logical_queues_waits_as_long_as_its_setting_says(
    key: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """For a broker that a message is passed on to, for writers of a queue, and for migrations."""
    waits: set[float] = set()
    call = Peers.call

    async def recording(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it is given
        waits.add(given[-1])
        return await call(*given, **named)

    monkeypatch.setattr(Peers, "call", recording)
    with recorded_pauses(monkeypatch) as pauses:
        async with mapped_cluster(**{key: 12_345}) as cluster:
            source = await cluster.normal(0)
            await cluster.migrate(0, "broker2")
            old = await cluster.connect("broker1", version=253)
            assert (await old.send(source.topic, b"to the old place", queue_id=0)).code == 0
            await trio.sleep(20)
    assert 12.345 in waits | pauses


async def first_flush_s(
    root: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> float:
    """Return when the log is flushed for the first time after a small message, in seconds."""
    times: list[float] = []

    async def flush(flusher: Flusher) -> None:
        times.append(trio.current_time())
        flusher.flushed = flusher._log.end

    async with open_test_broker(root, **settings) as broker:
        begin_s = trio.current_time()
        with monkeypatch.context() as patched:
            patched.setattr(Flusher, "_flush", flush)
            await broker.connect().send()
            await trio.sleep(100)
    return times[0] - begin_s


async def test_the_log_is_flushed_as_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Few bytes wait for the thorough flush, more than the pages that are named do not."""

    def first(name: str, **settings: int) -> Awaitable[float]:
        slow = {"flush_consume_queue_thorough_interval": 1_000_000}
        return first_flush_s(tmp_path / name, monkeypatch, {**slow, **settings})

    assert 9 < await first("1") < 11
    assert await first("2", flush_commit_log_least_pages=0) < 2
    assert 29 < await first("3", flush_commit_log_thorough_interval=30_000) < 31


async def test_queues_are_made_durable_as_their_setting_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    for value_ms in (20_000, 200_000):
        times: list[float] = []

        async def flush_all(housekeeping: Housekeeping, times: list[float] = times) -> None:
            times.append(trio.current_time())

        root = tmp_path / str(value_ms)
        async with open_test_broker(root, flush_consume_queue_thorough_interval=value_ms):
            begin_s = trio.current_time()
            with monkeypatch.context() as patched:
                patched.setattr(Housekeeping, "flush_all", flush_all)
                await trio.sleep(100)
        assert bool(times) is (value_ms < 100_000)
        assert all(time_s - begin_s >= value_ms / 1000 - 1 for time_s in times)


# Ports and addresses


async def test_a_server_listens_where_its_settings_say(tmp_path: Path) -> None:
    """At an address and port of all, at what clients are told."""

    async def check(host: str, port: int) -> None:
        await (await trio.open_tcp_stream(host, port)).aclose()
        other = "127.0.0.1" if host == "127.0.0.2" else "127.0.0.2"
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream(other, port)

    for host in ("127.0.0.1", "127.0.0.2"):
        port = free_port()  # one that the system gives may be another's at the other address
        async with open_nameserver(NameServerConfig(bind_address=host, listen_port=port)) as opened:
            assert (opened.host, opened.port) == (host, port)
            await check(host, port)
        port = free_port(10)
        config = broker_config(tmp_path / host, bind_address=host, listen_port=port)
        async with open_broker(config) as broker:
            assert (broker.address.host, broker.port) == (host, port)
            await check(host, port)
    async with open_nameserver(NameServerConfig(bind_address=host, listen_port=0)) as opened:
        assert opened.port not in (0, NameServerConfig().listen_port)  # 0 takes a free one
    async with open_broker(broker_config(tmp_path / "told", broker_ip1="10.9.8.7")) as broker:
        assert broker.address.host == "10.9.8.7"
        assert broker.port not in (0, BrokerConfig().listen_port)


async def test_a_logical_listener_has_the_ports_that_its_settings_say(tmp_path: Path) -> None:
    async with open_broker(broker_config(tmp_path / "none", logical_listen_port=-1)) as broker:
        assert broker.logical_address is None
    for number in (1, 3):
        config = broker_config(tmp_path / str(number), logical_queue_brokers=number)
        async with open_broker(config) as broker:
            assert broker.logical_address is not None
        assert len(config.numbered_ports) == (0 if number == 1 else number)


def broker_config(root: Path, **settings: object) -> BrokerConfig:
    changes: dict[str, Any] = {"bind_address": "127.0.0.1", "listen_port": 0, **settings}
    return BrokerConfig(broker_name="a", store_path_root_dir=root, **{**SMALL_STORE, **changes})


# Limits of peers


@pytest.mark.parametrize("kind", [BrokerConfig, NameServerConfig])
def test_the_limits_of_peers_are_those_of_the_settings(
    kind: type[BrokerConfig | NameServerConfig],
) -> None:
    config = kind(peer_memory_max=99 << 20, server_channel_max_idle_time_seconds=7)
    assert config.peer_memory_bytes == 99 << 20
    assert config.limits().idle_s == 7


async def test_an_idle_connection_is_closed_when_its_setting_says(tmp_path: Path) -> None:
    for idle_s in (5, 500):
        settings: dict[str, Any] = {"server_channel_max_idle_time_seconds": idle_s}
        async with open_test_broker(tmp_path / str(idle_s), **settings) as broker:
            await broker.connect().send()
            (connection,) = broker.broker.server.connections
            connection.check_times(trio.current_time() + 100)
            await wait_all_tasks_blocked()
            assert len(broker.broker.server.connections) == (idle_s > 100)


@pytest.mark.parametrize(("key", "value"), [("brokerId", "1"), ("brokerRole", "SLAVE")])
def test_what_lanemq_has_not_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="does not replicate"):
        BrokerConfig.from_properties({key: value})


async def test_a_pull_without_long_polling_waits_as_long_as_the_setting_says(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    for wait_ms in (500, 20_000):
        settings: dict[str, Any] = {
            "long_polling_enable": False,
            "short_polling_time_mills": wait_ms,
        }
        async with open_test_broker(tmp_path / str(wait_ms), **settings) as broker:
            client = broker.connect()
            await client.send()
            begin_s = trio.current_time()
            await client.pull(offset=1, sys_flag=6, suspend_timeout_millis=60_000)
            assert wait_ms / 1000 <= trio.current_time() - begin_s <= wait_ms / 1000 + 5


async def test_a_name_server_keeps_its_configuration_where_its_setting_says(
    tmp_path: Path,
) -> None:
    for path in (tmp_path / "kv.json", None):
        config = NameServerConfig(bind_address="127.0.0.1", listen_port=0, kv_config_path=path)
        async with open_nameserver(config) as opened, connected(opened.port) as client:
            fields = {"namespace": "n", "key": "k", "value": "v"}
            assert (await client.call(RequestCode.PUT_KV_CONFIG, fields)).code == 0
    assert [one.name for one in named(tmp_path, "kv*.json")] == ["kv.json"]


async def test_a_query_by_unique_key_finds_as_many_as_the_setting_says(tmp_path: Path) -> None:
    for most in (1, 2):
        async with open_test_broker(tmp_path / str(most), default_query_max_num=most) as broker:
            client = broker.connect()
            for _ in range(3):
                await client.send("T", b"x", {"UNIQ_KEY": "U"})
            header = QueryMessage("T", "U", 32, 0, 1 << 60, unique_key_query=True)
            answer = await client.call(RequestCode.QUERY_MESSAGE, header.to_fields())
            assert len(decode_messages(answer.body)) == most


@pytest.mark.parametrize(("time_out_ms", "is_asked"), [(1000, True), (6000, False)])
async def test_a_producer_is_asked_when_the_setting_says(
    tmp_path: Path, time_out_ms: int, *, is_asked: bool
) -> None:
    clock = StandingClock()
    async with open_test_broker(tmp_path, now_ms=clock, transaction_time_out=time_out_ms) as broker:
        client = broker.connect()
        await client.heartbeat(producers=("pg",))
        half = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U"}
        assert (await client.send("T", b"x", half, sys_flag=4)).code == 0
        clock.ms += 3000
        await broker.broker.clock_moved()
        await client.heartbeat(producers=("pg",))
        assert bool(client.pushed) is is_asked


@pytest.mark.parametrize("is_told", [True, False])
async def test_brokers_are_told_of_ordered_topics_where_the_setting_says(*, is_told: bool) -> None:
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, return_order_topic_config_to_broker=is_told
    )
    async with open_nameserver(config) as opened, connected(opened.port) as client:
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "a:4"}
        assert (await client.call(RequestCode.PUT_KV_CONFIG, fields)).code == 0
        header = RegisterBroker(
            broker_name="a",
            broker_addr="127.0.0.1:10911",
            cluster_name="c",
            ha_server_addr="127.0.0.1:10912",
            broker_id=0,
        )
        answer = await client.call(
            RequestCode.REGISTER_BROKER, header.to_fields(), RegisterBrokerBody().encode()
        )
        assert answer.code == 0
        assert (b"a:4" in answer.body) is is_told


async def test_a_proxy_has_its_brokers_where_its_settings_say(tmp_path: Path) -> None:
    """At the ports from the first one on, which it keeps in a file."""
    async with (
        open_nameserver(NameServerConfig(bind_address="127.0.0.1", listen_port=0)) as name_server,
        open_broker(broker_config(tmp_path / "b", namesrv_addr=name_server.address)),
    ):
        port = free_port(-2)
        config = gateway_config(
            name_server.address, broker_port=port, state_path=tmp_path / "numbers"
        )
        async with open_gateway(config) as proxy:
            with trio.fail_after(60):
                while not proxy.brokers.ports:  # noqa: ASYNC110 - others decide when
                    await trio.sleep(0.01)
            (opened,) = proxy.brokers.ports.values()
            assert opened.address.port == port
            async with connected(proxy.address.port) as client:
                answer = await client.call(RequestCode.KV_STATUS, {"namespace": "n"})
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert [one.name for one in named(tmp_path, "numbers*")] == ["numbers"]


def test_the_key_of_links_may_have_a_password(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("locked", password="open sesame")
    given = {
        "useTLS": "true",
        "tls.client.certPath": str(pair.certificate),
        "tls.client.keyPath": str(pair.key),
    }
    for password, is_right in (("open sesame", True), ("guessed", False)):
        settings = TlsSettings.from_properties({**given, "tls.client.keyPassword": password})
        with nullcontext() if is_right else pytest.raises(ConfigError, match="password"):
            assert ProcessTls(settings, name="test").client is not None


def test_clients_certificates_are_checked_by_the_authorities_that_are_named(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue()
    given = {
        "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key),
        "tls.server.need.client.auth": "require",
    }
    with pytest.raises(ConfigError, match="trustCertPath"):
        TlsSettings.from_properties(given)
    settings = TlsSettings.from_properties(
        {**given, "tls.server.trustCertPath": str(authority.path)}
    )
    context = ProcessTls(settings, name="test").server.context
    assert context is not None
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("is_told", [True, False])
async def test_members_are_told_of_others_where_the_setting_says(
    tmp_path: Path, autojump_clock: MockClock, *, is_told: bool
) -> None:
    settings: dict[str, Any] = {"notify_consumer_ids_changed_enable": is_told}
    async with open_test_broker(tmp_path, **settings) as broker:
        first, second = broker.connect(), broker.connect()
        await first.heartbeat("1", consumers={"g": {"T": "*"}})
        await second.heartbeat("2", consumers={"g": {"T": "*"}})
        await trio.sleep(1)
        await first.heartbeat("1", consumers={"g": {"T": "*"}})
        codes = {frame.code for frame in first.pushed}
        assert (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED in codes) is is_told


async def test_a_proxy_serves_on_while_clients_leave_as_long_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        open_nameserver(NameServerConfig(bind_address="127.0.0.1", listen_port=0)) as name_server,
        open_gateway(gateway_config(name_server.address)) as other,
    ):
        for seconds in (4, 0):  # no pause, and no limit, of what both do meanwhile
            config = gateway_config(
                name_server.address, peers=str(other.address), leave_seconds=seconds
            )
            with recorded_pauses(monkeypatch) as pauses:
                async with open_gateway(config) as proxy:
                    with trio.fail_after(60):
                        while not proxy.peers.living:  # noqa: ASYNC110 - others decide when
                            await trio.sleep(0.01)
                    pauses.clear()
            assert (4 in pauses) is (seconds == 4)
