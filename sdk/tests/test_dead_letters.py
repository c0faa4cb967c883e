"""Dead letters say why they died, whatever the error says, and come again when they are sent."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, cast

import pytest
import trio
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    AbandonMessage,
    ConcurrentListener,
    ConsumeFrom,
    KeyOrderedListener,
    Message,
    MessageQueue,
    NoRoute,
    OrderlyListener,
    Outcome,
    ReceivedMessage,
    Retry,
    StagedConcurrentListener,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import DeadLetter, dead_letters_of, open_admin, resend_dead_letters
from lanemq.sdk.admin.cli import admin as commands
from lanemq.sdk.consumer.pool._failures import REASON_BYTES_MAX, reason_of
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S, until
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.message import decode_properties, encode_properties

DLQ = "%DLQ%cg"
Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome]]
Listener = ConcurrentListener | OrderlyListener | KeyOrderedListener | StagedConcurrentListener
LISTENERS: dict[str, Callable[[Handle], Listener]] = {
    "concurrent": ConcurrentListener,
    "orderly": lambda handle: OrderlyListener(handle, max_reconsume_times=1),
    "keyed": lambda handle: KeyOrderedListener(handle, key=lambda _: 1, max_reconsume_times=1),
    "staged": lambda handle: StagedConcurrentListener(handle, [3], max_reconsume_times=1),
}


class Failing:
    """A listener that raises or returns what it is given."""

    def __init__(self, result: Any) -> None:  # noqa: ANN401 - also what it must not return
        self.result = result
        self.takes_s = 0.0

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome:
        await trio.sleep(self.takes_s)
        if isinstance(self.result, Exception):
            raise self.result
        return cast("Outcome", self.result)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (ValueError("no such account\nand more"), "ValueError: no such account"),
        (ValueError(), "ValueError"),
        (ValueError("\n\n  indented"), "ValueError: indented"),
        (KeyError("a\x01b\x02"), "KeyError: 'a\\x01b\\x02'"),
        (OSError("caf\udce9 \x1b[31m"), "OSError: caf\\udce9 \\x1b[31m"),
        (Outcome.RETRY, "the listener returned Outcome.RETRY"),
        (Retry(delay_level=2), "the listener returned Retry"),
        (5, "the listener returned a int, which is not an Outcome"),
    ],
)
async def test_a_dead_letter_has_the_last_error_and_the_attempts(
    cluster: FakeCluster, autojump_clock: MockClock, result: object, reason: str
) -> None:
    cluster.broker.put("T", 0, b"dies")
    async with push_consumer_of(
        cluster,
        Failing(result).__call__,
        max_reconsume_times=2,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await trio.sleep(100)
    (letter,) = cluster.broker.messages(DLQ)
    assert letter.body == b"dies"
    assert letter.properties["DLQ_REASON"] == reason
    assert letter.properties["DLQ_ATTEMPTS"] == "3"
    assert letter.properties["RETRY_TOPIC"] == "T"
    assert "DELAY" not in letter.properties


@pytest.mark.parametrize("kind", LISTENERS)
@pytest.mark.parametrize("abandons", [True, False])
async def test_every_kind_of_listener_says_why(
    cluster: FakeCluster, autojump_clock: MockClock, kind: str, abandons: bool
) -> None:
    cluster.broker.put("T", 0, b"dies")
    handle = Failing(AbandonMessage("broken") if abandons else RuntimeError("broken")).__call__
    listener = LISTENERS[kind](handle)
    async with push_consumer_of(
        cluster, listener, max_reconsume_times=1, consume_from=ConsumeFrom.FIRST_OFFSET
    ):
        await trio.sleep(60)
    (letter,) = cluster.broker.messages(DLQ)
    name = "AbandonMessage" if abandons else "RuntimeError"
    assert letter.properties["DLQ_REASON"] == f"{name}: broken"
    assert letter.properties["DLQ_ATTEMPTS"] == ("1" if abandons else "2")


@pytest.mark.parametrize("kind", LISTENERS)
@pytest.mark.parametrize("chooses", ["none", "another queue's", "a text"])
async def test_who_abandons_no_message_of_the_batch_has_failed(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    chooses: str,
) -> None:
    bodies = [b"one", b"two"]
    for body in bodies:
        cluster.broker.put("T", 0, body)
    got: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        first = not got
        got.extend(message.body for message in messages)
        if not first:
            return Outcome.SUCCESS
        elsewhere = MessageQueue("T", "broker-b", 0)
        chosen: dict[str, Any] = {
            "none": (message for message in messages if not message.body),
            "another queue's": [ReceivedMessage(messages[0].stored, elsewhere)],
            "a text": "one",
        }
        raise AbandonMessage("poison", messages=chosen[chooses])

    listener = replace(LISTENERS[kind](handle), batch_messages=2)
    async with push_consumer_of(cluster, listener, consume_from=ConsumeFrom.FIRST_OFFSET):
        await trio.sleep(60)
    assert sorted(got) == sorted(bodies * 2)
    assert cluster.broker.messages(DLQ) == []
    assert ("TypeError" if chooses == "a text" else "raised for none of") in caplog.text


@pytest.mark.parametrize("kind", LISTENERS)
async def test_only_what_is_chosen_is_abandoned(
    cluster: FakeCluster, autojump_clock: MockClock, kind: str
) -> None:
    for body in (b"one", b"poison", b"two"):
        cluster.broker.put("T", 0, body)
    got: list[list[bytes]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        got.append([message.body for message in messages])
        if poison := [message for message in messages if message.body == b"poison"]:
            raise AbandonMessage("poison", messages=poison)
        return Outcome.SUCCESS

    listener = replace(LISTENERS[kind](handle), batch_messages=3)
    async with push_consumer_of(cluster, listener, consume_from=ConsumeFrom.FIRST_OFFSET):
        await trio.sleep(60)
    assert got == [[b"one", b"poison", b"two"], [b"one", b"two"]]
    assert cluster.bodies(DLQ) == [b"poison"]


async def test_a_listener_that_takes_too_long_is_a_reason(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.put("T", 0, b"dies")
    failing = Failing(None)
    failing.takes_s = 1000
    async with push_consumer_of(
        cluster,
        failing.__call__,
        max_reconsume_times=0,
        consume_timeout_s=5,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await trio.sleep(60)
    (letter,) = cluster.broker.messages(DLQ)
    assert letter.properties["DLQ_REASON"] == "the listener took longer than consume_timeout_s"


async def test_where_no_copy_is_taken_the_broker_makes_a_dead_letter_without_a_reason(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.broker.put("T", 0, b"dies")
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, *[ResponseCode.MESSAGE_ILLEGAL] * 9)
    async with push_consumer_of(
        cluster,
        Failing(ValueError("no")).__call__,
        max_reconsume_times=0,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await trio.sleep(60)
    (letter,) = cluster.broker.messages(DLQ)
    assert "DLQ_REASON" not in letter.properties
    assert "becomes a dead letter without its reason" in caplog.text


class UnspeakableError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@given(st.text(st.characters(codec=None), max_size=2000))
def test_any_reason_is_one_short_line_that_properties_can_hold(text: str) -> None:
    reason = reason_of(Outcome.RETRY, ValueError(text))
    assert len(reason.encode()) <= REASON_BYTES_MAX
    assert reason.isprintable() or any(c in "\u00a0\u2007\u202f\u3000" for c in reason)
    assert decode_properties(encode_properties({"R": reason}).decode()) == {"R": reason}


def test_an_error_without_a_text_has_a_reason() -> None:
    assert (
        reason_of(Outcome.RETRY, UnspeakableError()) == "UnspeakableError: its text cannot be had"
    )


async def command(*args: str) -> Result:
    """Run a command in a thread of its own: it has its own event loop."""
    return await trio.to_thread.run_sync(CliRunner().invoke, commands, args)


async def letters_of(group: str, name_server: str, count: int) -> list[DeadLetter]:
    """Wait until a group has as many dead letters."""
    found: list[DeadLetter] = []
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:

        async def are_there() -> bool:
            nonlocal found
            with suppress(NoRoute):  # the topic is made with the first of them
                found = await dead_letters_of(admin, group)
            return len(found) == count

        await until(are_there)
    return found


@pytest.mark.slow
async def test_dead_letters_are_listed_and_sent_to_their_group_again(quick_server: str) -> None:
    topic, group = "dying", "dying-group"
    again: list[tuple[bytes, int]] = []
    fixed, all_again, others_have_all = trio.Event(), trio.Event(), trio.Event()
    others: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        (message,) = messages
        assert (message.topic, message.tags, message.keys) == (topic, "A", ("k",))
        assert message.user_properties == {"own": "1"}
        if not fixed.is_set():
            raise ValueError(f"cannot handle {message.body!r}")
        again.append((message.body, message.reconsume_times))
        if len(again) == 4:
            all_again.set()

    async def other(messages: Sequence[ReceivedMessage]) -> None:
        others.extend(message.body for message in messages)
        if len(others) == 3:
            others_have_all.set()

    async with open_producer("pg", name_servers=quick_server, options=PATIENT_PRODUCER) as producer:
        for number in range(3):
            body = b"%d" % number
            await producer.send(
                Message(topic=topic, body=body, tags="A", keys=("k",), properties={"own": "1"})
            )
    clients = AsyncExitStack()
    with trio.fail_after(120):
        async with clients:
            for name, function in ((group, handle), ("another-group", other)):
                await clients.enter_async_context(
                    open_push_consumer(
                        name,
                        name_servers=quick_server,
                        subscriptions={topic: "*"},
                        listener=ConcurrentListener(function),
                        max_reconsume_times=0,
                        consume_from=ConsumeFrom.FIRST_OFFSET,
                    )
                )
            letters = await letters_of(group, quick_server, 3)
            assert {(letter.reason, letter.attempts, letter.topic) for letter in letters} == {
                (f"ValueError: cannot handle {body!r}", 1, topic) for body in (b"0", b"1", b"2")
            }
            shown = await command("deadLetters", "-n", quick_server, "-g", group)
            assert shown.exit_code == 0, shown.output
            assert "ValueError: cannot handle b'1'" in shown.output
            fixed.set()
            call = ("resendDeadLetters", "-n", quick_server, "-g", group, "-i")
            sent = await command(*call, letters[1].message_id)
            assert sent.exit_code == 0, sent.output
            assert "1 dead letters were sent" in sent.output
            wrong = await command(*call, "no-such-id")
            assert wrong.exit_code != 0
            assert "no-such-id" in wrong.output
            async with open_admin(name_servers=quick_server, timeout_s=PATIENT_S) as admin:
                assert len(await resend_dead_letters(admin, group)) == 3
            await all_again.wait()
            await others_have_all.wait()
    assert {body for body, _ in again} == {b"0", b"1", b"2"}
    assert {times for _, times in again} == {0}, "all deliveries are before them"
    assert sorted(others) == [b"0", b"1", b"2"], "no other group gets them again"
