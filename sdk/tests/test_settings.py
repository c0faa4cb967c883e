"""Single options by keyword, beside and instead of an options object."""

import pytest
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    LitePullOptions,
    Message,
    ProducerOptions,
    PushOptions,
    RemotingOptions,
    RequestTimedOut,
    WrongUse,
    aio,
    blocking,
    open_producer,
)
from lanemq.sdk.opening._settings import with_settings
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode


def test_a_setting_reaches_the_options_that_have_it() -> None:
    base = ProducerOptions(retries=7, client=ClientOptions(instance="mine"))
    assert with_settings(ProducerOptions, base, {}) is base
    merged = with_settings(
        ProducerOptions, base, {"send_timeout_s": 5, "namespace": "shop", "connect_timeout_s": 1.5}
    )
    assert merged == ProducerOptions(
        retries=7,
        send_timeout_s=5,
        client=ClientOptions(
            instance="mine", namespace="shop", remoting=RemotingOptions(connect_timeout_s=1.5)
        ),
    )
    assert with_settings(PushOptions, None, {"pull_batch": 5}).pull_batch == 5
    given = ClientOptions(trace=True)
    merged_pull = with_settings(LitePullOptions, None, {"client": given, "unit_name": "u"})
    assert merged_pull.client == ClientOptions(trace=True, unit_name="u")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("sendTimeoutS", "send_timeout_s"), ("send_timeout", "send_timeout_s"), ("colour", None)],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(name: str, hint: str | None) -> None:
    with pytest.raises(WrongUse, match=f"there is no option '{name}'") as refused:
        with_settings(ProducerOptions, None, {name: 1})
    assert ("did you mean" in str(refused.value)) == (hint is not None)
    assert hint is None or repr(hint) in str(refused.value)


def test_bad_values_are_refused_where_they_are_given() -> None:
    for opener in (aio.open_producer, blocking.open_producer):
        with pytest.raises(ValueError, match="send_timeout_s must be positive"):
            opener("pg", name_servers="127.0.0.1:9876", send_timeout_s=0)
        with pytest.raises(WrongUse, match="retries"):
            opener("pg", name_servers="127.0.0.1:9876", retrys=0)  # type: ignore[call-arg]


async def test_settings_act(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    cluster.create_topic("T")
    cluster.broker.mute(RequestCode.SEND_MESSAGE_V2)
    async with open_producer(
        "pg", name_servers=cluster.name_servers, dial=cluster.dial, send_timeout_s=7, retries=0
    ) as producer:
        with pytest.raises(RequestTimedOut, match="within 7 s"):
            await producer.send(Message(topic="T", body=b"x"))
