"""Texts without an encoding, too long ones and numbers out of range: refused in the caller's call.

A running client is as it was, whatever it is given.
"""

# ruff: noqa: ANN401 - mistakes are of any type

import inspect
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, get_args, get_type_hints

import pytest
import trio
from click.testing import CliRunner
from trio.testing import MockClock

import lanemq.sdk.blocking
from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Credentials,
    InvalidName,
    LanemqError,
    LitePullConsumer,
    Message,
    MessageQueue,
    MessageRejected,
    Producer,
    PushConsumer,
    Sql,
    open_producer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.cli import admin
from lanemq.sdk.kv import KvRejected
from lanemq.sdk.kv.cli import kv as kv_command
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened

HALF = "caf\udce9"
LONG = "A" * (17 << 20)
HUGE = 1 << 70
MINE = MessageQueue("T", "broker-a", 0)

MESSAGES: list[dict[str, Any]] = [
    {"topic": HALF},
    {"topic": "T\0"},
    {"topic": LONG},
    {"tags": HALF},
    {"tags": ["a"]},
    {"tags": 5},
    {"tags": LONG},
    {"keys": (HALF,)},
    {"keys": (1,)},
    {"keys": 5},
    {"keys": {"a": 1}},
    {"properties": {HALF: "a"}},
    {"properties": {"a": HALF}},
    {"properties": {"a": LONG}},
    {"properties": {1: "a"}},
    {"properties": {("a",): "a"}},
    {"properties": ["a"]},
    {"properties": "text"},
    {"flag": HUGE},
    {"flag": "1"},
    {"flag": 1 << 31},
    {"delay_level": "3"},
    {"delay_level": 1.5},
    {"delay_level": True},
    {"delay_level": -1},
    {"delay_level": HUGE},
    {"delay_s": "1"},
    {"delay_s": float("nan")},
    {"delay_s": float("inf")},
    {"deliver_at_ms": HUGE},
    {"deliver_at_ms": "1"},
    {"deliver_at_ms": 1.5},
    {"wait": "no"},
    {"wait": None},
]


def as_message(changes: dict[str, Any]) -> Message:
    return Message(**({"topic": "T", "body": b"x"} | changes))


@pytest.mark.parametrize("changes", MESSAGES, ids=lambda changes: str(next(iter(changes))))
async def test_a_message_is_refused_by_every_way_to_send_it(
    cluster: FakeCluster, autojump_clock: MockClock, changes: dict[str, Any]
) -> None:
    cluster.create_topic("T", 1)
    message = as_message(changes)
    async with producer_of(cluster, trace=True) as producer:
        for send in (
            lambda: producer.send(message),
            lambda: producer.send_batch([message]),
            lambda: producer.send_batches([message]),
            lambda: producer.send_oneway(message),
            lambda: producer.request(message),
        ):
            with pytest.raises((MessageRejected, InvalidName)) as refused:
                await send()
            assert len(str(refused.value).encode()) < 1000
        result = await producer.send(as_message({}))
        assert result.queue_offset == 0, "nothing of them was stored"


EXPRESSIONS: list[Any] = [HALF, LONG, "a &&& b", "price > 100", "a | b", "A || b c", 5, None, ["A"]]
TOPICS: list[Any] = [HALF, LONG, "T\0", "", "a b", 5, None]


async def ignore(messages: Any) -> None: ...


async def finished(call: Callable[[], Any]) -> None:
    found = call()
    if inspect.isawaitable(found):
        await found


async def alive(consumer: PushConsumer | LitePullConsumer, cluster: FakeCluster) -> None:
    """Let background work run for a while, then check that the consumer still works."""
    await trio.sleep(100)
    assert MINE in consumer.queues
    assert any(cluster.broker.members.values())


@pytest.mark.parametrize("kind", ["push", "pull"])
async def test_a_running_consumer_outlives_what_it_refuses(
    cluster: FakeCluster, autojump_clock: MockClock, kind: str
) -> None:
    cluster.create_topic("T", 1)
    cluster.create_topic("T2", 1)
    consumer: Any
    opening: Any = (
        push_consumer_of(cluster, ConcurrentListener(ignore), heartbeat_interval_s=1)
        if kind == "push"
        else lite_pull_consumer_of(cluster, heartbeat_interval_s=1)
    )
    async with opening as consumer:
        if kind == "pull":
            await consumer.subscribe("T")
        for expression in EXPRESSIONS:
            for topic in ("T", "T2"):
                with pytest.raises(LanemqError):
                    await consumer.subscribe(topic, expression)
        for topic in TOPICS:
            with pytest.raises(LanemqError):
                await consumer.subscribe(topic)
        await alive(consumer, cluster)
        if kind == "pull":
            calls: list[Callable[[], Any]] = [
                lambda: consumer.seek(MINE, HUGE),
                lambda: consumer.seek(MINE, "1"),
                lambda: consumer.seek(MessageQueue("T", HALF, 0), 1),
                lambda: consumer.commit({MINE: HUGE}),
                lambda: consumer.commit({MINE: None}),
                lambda: consumer.offsets_for_times({MINE: HUGE}),
                lambda: consumer.offsets_for_times({MINE: "now"}),
                lambda: consumer.committed(MessageQueue("T", HALF, 0)),
                lambda: consumer.queues_of(HALF),
            ]
            for call in calls:
                with pytest.raises(LanemqError):
                    await finished(call)
            await alive(consumer, cluster)


@pytest.mark.parametrize(
    "queue",
    [
        MessageQueue(HALF, "broker-a", 0),
        MessageQueue("T", HALF, 0),
        MessageQueue("T", "broker-a", HUGE),
        MessageQueue("T", "broker-a", -1),
        "T",
    ],
)
async def test_queues_that_cannot_be_are_not_assigned(
    cluster: FakeCluster, autojump_clock: MockClock, queue: Any
) -> None:
    cluster.create_topic("T", 1)
    async with lite_pull_consumer_of(cluster) as consumer:
        with pytest.raises(LanemqError):
            await consumer.assign([queue])
        await consumer.subscribe("T")
        await alive(consumer, cluster)


async def test_subscriptions_that_do_not_fit_a_heartbeat_together_are_refused(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    long = " || ".join(f"tag-{number}" for number in range(15_000))
    async with push_consumer_of(cluster, ConcurrentListener(ignore)) as consumer:

        async def all_of_them() -> None:
            for number in range(40):
                await consumer.subscribe(f"T-{number}", long)

        with pytest.raises(InvalidName, match="divide them among consumers"):
            await all_of_them()
        await trio.sleep(100)
        assert MINE in consumer.queues


def test_conditions_and_credentials_and_options_are_checked_where_they_are_made() -> None:
    made: list[Callable[[], Any]] = [
        lambda: Sql(f"a = '{HALF}'"),
        lambda: Sql(f"a = '{LONG}'"),
        lambda: Sql(5),  # type: ignore[arg-type]
        lambda: Credentials(access_key=HALF, secret_key="b"),
        lambda: Credentials(access_key="a", secret_key=HALF),
        lambda: Credentials(access_key="a", secret_key=5),  # type: ignore[arg-type]
        lambda: ClientOptions(namespace=HALF),
        lambda: ClientOptions(instance=HALF),
        lambda: ClientOptions(trace_topic=HALF),
        lambda: ClientOptions(unit_name=HALF),
        lambda: ClientOptions(tls=True),  # type: ignore[arg-type]
        lambda: ClientOptions(trace="yes"),  # type: ignore[arg-type]
    ]
    for make in made:
        with pytest.raises(ValueError, match=r".") as refused:
            make()
        assert isinstance(refused.value, LanemqError)


NAME_SERVERS: list[Any] = [f"{HALF}:1", "a\0b:1", f"{'a' * 300}:1", f"http://{HALF}/x", 5, [5]]


@pytest.mark.parametrize("name_servers", NAME_SERVERS)
async def test_addresses_that_no_host_has_are_errors_and_not_the_end(
    autojump_clock: MockClock, name_servers: Any
) -> None:
    with pytest.raises(LanemqError):
        async with open_producer("pg", name_servers=name_servers) as producer:
            await producer.send(as_message({}))


@pytest.mark.parametrize(
    ("group", "subscriptions"),
    [
        (HALF, {"T": "*"}),
        ("g", {HALF: "*"}),
        ("g", {"T": HALF}),
        ("g", {"T": LONG}),
        ("g", {"T": "a &&& b"}),
    ],
    ids=range(5),
)
def test_threads_are_refused_groups_and_subscriptions(
    group: str, subscriptions: dict[str, str]
) -> None:
    opening = lanemq.sdk.blocking.open_push_consumer(
        group, subscriptions=subscriptions, listener=print, name_servers="127.0.0.1:1"
    )
    with pytest.raises(LanemqError):
        opening.__enter__()


def texts_of(method: Callable[..., Any]) -> list[str]:
    """Return the names of parameters that take a text."""
    hints = get_type_hints(method)
    return [
        name
        for name, kind in hints.items()
        if name != "return" and (kind is str or str in get_args(kind))
    ]


def sample(name: str, parameter: inspect.Parameter, kind: Any) -> Any:
    """Return a value of about the right kind."""
    if parameter.default is not parameter.empty:
        return parameter.default
    if kind is str:
        return "127.0.0.1:1" if "address" in name or name == "broker" else "x"
    if kind is int:
        return 0
    if kind is MessageQueue:
        return MINE
    if kind is bytes:
        return b""
    return None


def is_of_another_kind(method: Callable[..., Any], name: str) -> bool:
    """Return whether a parameter has to be given and is none of the simple kinds."""
    kind = get_type_hints(method).get(name)
    parameter = inspect.signature(method).parameters[name]
    simple = (str, int, bool, bytes, MessageQueue, None)
    return parameter.default is parameter.empty and kind not in simple


METHODS = [
    (name, text)
    for name, method in inspect.getmembers(AdminClient, inspect.iscoroutinefunction)
    if not name.startswith("_")
    for text in texts_of(method)
    if not any(is_of_another_kind(method, one) for one in inspect.signature(method).parameters)
]


@pytest.mark.parametrize(("name", "text"), METHODS)
async def test_every_text_of_the_administrators_client_is_refused_by_an_error_of_ours(
    cluster: FakeCluster, autojump_clock: MockClock, name: str, text: str
) -> None:
    cluster.create_topic("T", 1)
    async with open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as client:
        method = getattr(client, name)
        hints = get_type_hints(method)
        given = {
            one: sample(one, parameter, hints.get(one))
            for one, parameter in inspect.signature(method).parameters.items()
        }
        with suppress(LanemqError):
            await method(**{**given, text: HALF})


COMMANDS = [(admin, name) for name in admin.commands] + [
    (kv_command, name) for name in kv_command.commands
]


@pytest.mark.parametrize(("group", "name"), COMMANDS)
def test_every_command_refuses_texts_by_one_line(group: Any, name: str) -> None:
    command = group.commands[name]
    # Keys of any bytes are keys: such a command looks for its server, and would go on for 10 s.
    patience = ["--timeout", "0.1"] if group is kv_command else []
    for parameter in command.params:
        if getattr(parameter, "is_flag", False) or parameter.name in ("json", "help"):
            continue
        option = [parameter.opts[0]] if parameter.opts[0].startswith("-") else []
        arguments = [name, *patience, *option, HALF]
        result = CliRunner(env={"NAMESRV_ADDR": "127.0.0.1:1"}).invoke(group, arguments)
        assert result.exit_code != 0, arguments
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            arguments,
            result.exception,
        )
        os.fsencode(result.output)


async def test_the_kind_of_start_and_its_time_go_together(cluster: FakeCluster) -> None:
    with pytest.raises(LanemqError, match=r"ConsumeFrom\.TIMESTAMP"):
        async with lite_pull_consumer_of(cluster, consume_from_timestamp_ms=5):
            pass
    async with lite_pull_consumer_of(
        cluster, consume_from=ConsumeFrom.TIMESTAMP, consume_from_timestamp_ms=5
    ):
        pass


def names_of(producer: Producer) -> Awaitable[Any]:
    return producer.publish_queues(HALF)


async def test_names_of_topics_are_checked_by_look_ups(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        for call in (names_of, lambda p: p.recall(HALF, "x"), lambda p: p.recall("T", HALF)):
            with pytest.raises(LanemqError):
                await call(producer)


KEYS: list[Any] = ["text", HALF, b"", bytes(8 << 10), None, 5]


@pytest.mark.parametrize("key", KEYS, ids=repr)
async def test_keys_and_names_of_keys_are_refused_in_the_call(
    kv: KvCluster, autojump_clock: MockClock, key: Any
) -> None:
    async with opened(kv) as store:
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.get(key),
            lambda: store.put(key, b"v"),
            lambda: store.delete(key),
            lambda: store.lock(key).__aenter__(),
        ]
        if key != b"" and not isinstance(key, bytes):
            calls.append(lambda: store.put(b"k", key))
        for call in calls:
            with pytest.raises(LanemqError) as refused:
                await call()
            assert isinstance(refused.value, KvRejected)
            assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("name", [HALF, LONG, 5, None])
async def test_names_of_leaders_and_checkpoints_are_checked(
    kv: KvCluster, autojump_clock: MockClock, name: Any
) -> None:
    async with opened(kv) as store:
        with pytest.raises(LanemqError):
            store.checkpoint(name)
        with pytest.raises(LanemqError):
            store.leader(name)


@pytest.mark.parametrize("namespace", [HALF, "a b", "", 5, LONG, "a\0"])
async def test_names_of_namespaces_are_checked(
    kv: KvCluster, autojump_clock: MockClock, namespace: Any
) -> None:
    with pytest.raises(LanemqError):
        async with opened(kv, namespace=namespace) as store:
            await store.get(b"k")
