"""Numbers that make no sense, of calls and on the command line: each is refused by its name."""

# ruff: noqa: ANN401 - mistakes are of any type

import math
from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

import pytest
from click.testing import CliRunner
from trio.testing import MockClock

from lanemq.sdk import (
    LanemqError,
    LitePullOptions,
    Message,
    MessageQueue,
    ProducerOptions,
    PushOptions,
    open_lite_pull_consumer,
    open_producer,
)
from lanemq.sdk.admin.cli import admin
from lanemq.sdk.kv import Action, KeyValueStore, KvRejected, Step
from lanemq.sdk.kv.cli import kv as kv_command
from lanemq.sdk.pull import open_puller
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode

MESSAGE = Message(topic="T", body=b"x")
QUEUE = MessageQueue("T", "broker-a", 0)
TEXT: Any = "5"
HALF: Any = 0.5


async def locked(store: KeyValueStore, **settings: Any) -> None:
    async with store.lock(b"l", **settings):
        raise AssertionError


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("ttl_s", lambda store: store.put(b"k", b"v", ttl_s=math.inf)),
        ("ttl_s", lambda store: store.put(b"k", b"v", ttl_s=1e300)),
        ("ttl_s", lambda store: store.put(b"k", b"v", ttl_s=math.nan)),
        ("ttl_s", lambda store: store.put(b"k", b"v", ttl_s=TEXT)),
        ("ttl_s", lambda store: store.compare_and_set(b"k", b"v", version=0, ttl_s=-1)),
        ("version", lambda store: store.compare_and_set(b"k", b"v", version=1 << 70)),
        ("version", lambda store: store.compare_and_set(b"k", b"v", version=-1)),
        ("version", lambda store: store.compare_and_set(b"k", b"v", version=HALF)),
        ("if_version", lambda store: store.batch([Step(b"k", Action.PUT, if_version=1 << 70)])),
        ("ttl_ms", lambda store: store.batch([Step(b"k", Action.PUT, ttl_ms=1 << 70)])),
        ("limit", lambda store: store.prefix(limit=0)),
        ("ttl_s", lambda store: locked(store, ttl_s=0)),
        ("ttl_s", lambda store: locked(store, ttl_s=-1)),
        ("ttl_s", lambda store: locked(store, ttl_s=math.nan)),
        ("wait_s", lambda store: locked(store, wait_s=-1)),
        ("wait_s", lambda store: locked(store, wait_s=math.nan)),
    ],
)
async def test_numbers_of_keys_are_refused_by_name(
    kv: KvCluster,
    autojump_clock: MockClock,
    name: str,
    call: Callable[[KeyValueStore], Awaitable[object]],
) -> None:
    kv.make(1)
    async with opened(kv) as store:
        with pytest.raises(KvRejected, match=rf"^{name} must be "):
            await call(store)
    assert kv.kv_brokers[0].asked(RequestCode.KV_WRITE) == []


@pytest.mark.parametrize("timeout_s", [-1, math.nan, TEXT, True])
async def test_timeouts_of_calls_are_refused_by_name(
    cluster: FakeCluster, autojump_clock: MockClock, timeout_s: Any
) -> None:
    cluster.create_topic("T")
    seam: dict[str, Any] = {"name_servers": cluster.name_servers, "dial": cluster.dial}
    async with (
        open_producer("pg", **seam) as producer,
        open_lite_pull_consumer("g", **seam) as consumer,
        open_puller("g", **seam) as puller,
    ):
        await consumer.assign([QUEUE])
        for call in (
            lambda: producer.send(MESSAGE, timeout_s=timeout_s),
            lambda: producer.send_batch([MESSAGE], timeout_s=timeout_s),
            lambda: producer.send_batches([MESSAGE], timeout_s=timeout_s),
            lambda: producer.request(MESSAGE, timeout_s=timeout_s),
            lambda: consumer.poll(timeout_s),
            lambda: puller.pull(QUEUE, 0, tags="*", max_count=1, timeout_s=timeout_s),
        ):
            with pytest.raises(ValueError, match=r"^timeout_s must be ") as refused:
                await call()
            assert isinstance(refused.value, LanemqError)
        with pytest.raises(ValueError, match="timeout_s must be at least 0 and at most 2147484"):
            await producer.request(MESSAGE, timeout_s=math.inf)
    sends = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
    assert not sends & {frame.code for frame in cluster.broker.requests}


async def test_a_store_is_not_opened_with_a_timeout_that_is_no_number(kv: KvCluster) -> None:
    with pytest.raises(KvRejected, match=r"^timeout_s must be a number of seconds, not nan"):
        async with opened(kv, timeout_s=math.nan):
            raise AssertionError


@pytest.mark.parametrize("kind", [ProducerOptions, PushOptions, LitePullOptions])
def test_options_are_numbers(kind: Any) -> None:
    names = {"ProducerOptions": "send_timeout_s"}
    name = names.get(kind.__name__, "pull_timeout_s")
    for wrong in (math.nan, 0, -1, TEXT):
        with pytest.raises(ValueError, match=rf"^{kind.__name__}\.{name} must be "):
            kind(**{name: wrong})


@pytest.mark.parametrize("wrong", ["nan", "-1", "0", "inf", "soon"])
def test_timeouts_on_the_command_line_are_refused_by_the_name_of_the_option(wrong: str) -> None:
    commands = [
        (admin, 1, ["topicStatus", "-n", "h:1", "-t", "x"]),  # mqadmin's status for all errors
        (kv_command, 2, ["get", "-n", "h:1", "a"]),
    ]
    for command, status, arguments in commands:
        result = CliRunner().invoke(command, [*arguments, "--timeout", wrong])
        assert (result.exit_code, result.stdout) == (status, "")
        assert "Error: Invalid value for '--timeout': " in result.stderr


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--ttl", ["put", "a", "1", "--ttl", "inf"]),
        ("--ttl", ["put", "a", "1", "--ttl", "1e300"]),
        ("--ttl", ["put", "a", "1", "--ttl", "nan"]),
        ("--ttl", ["put", "a", "1", "--ttl", "0"]),
        ("--ttl", ["cas", "a", "1", "--version", "1", "--ttl", "-1"]),
        ("--version", ["cas", "a", "2", "--version", "99999999999999999999"]),
        ("--version", ["cas", "a", "2", "--version", "-1"]),
        ("--ttl", ["lock", "n", "--ttl", "nan", "--", "true"]),
        ("--ttl", ["lock", "n", "--ttl", "0", "--", "true"]),
        ("--wait", ["lock", "n", "--wait", "-1", "--", "true"]),
        ("--wait", ["lock", "n", "--wait", "nan", "--", "true"]),
        ("--position", ["watch", "--position", "99999999999999999999"]),
    ],
)
def test_numbers_of_keys_on_the_command_line_are_refused_by_the_name_of_the_option(
    option: str, arguments: list[str]
) -> None:
    result = CliRunner().invoke(kv_command, [arguments[0], "-n", "h:1", *arguments[1:]])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: Invalid value for '{option}': " in result.stderr


def test_numbers_of_other_types_are_numbers() -> None:
    half_of_five: Any = Fraction(5, 2)
    assert ProducerOptions(send_timeout_s=half_of_five).send_timeout_s == 2.5
