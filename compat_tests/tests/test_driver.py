"""The harness's side of the driver protocol, against drivers that behave and that do not."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from lanemq.compat import (
    CommandRefused,
    Delivery,
    Driver,
    DriverFailed,
    NotApplicable,
    open_driver,
)

# Answers by the name of the command, so that each test needs only one line of it.
SCRIPT = """
import json, sys
def say(**line): print(json.dumps(line), flush=True)
message = dict(topic="T", body="aGk=", flag=0, properties={}, queue_id=0, queue_offset=5,
               reconsume_times=0, message_id="m", offset_id="o", born_timestamp_ms=1,
               store_timestamp_ms=2)
held = []
for line in sys.stdin:
    asked = json.loads(line)
    number, command = asked["id"], asked["command"]
    if command == "echo": say(id=number, result=asked["text"])
    elif command == "refuse": say(id=number, error="MQBrokerException", code=13, message="too big")
    elif command == "refuse-without-code": say(id=number, error="Timeout", message="late")
    elif command == "absent": say(id=number, not_applicable="no such thing")
    elif command == "nothing": say(id=number)
    elif command == "hold": held.append(number)
    elif command == "release":
        for one in reversed(held): say(id=one, result=one)
        say(id=number)
    elif command == "deliver":
        say(event="message", consumer="c", succeeded=True, message=message)
        say(id=number)
    elif command == "garbage": print("no json", flush=True)
    elif command == "die": sys.exit("out of ideas")
"""


@asynccontextmanager
async def driver_of(folder: Path) -> AsyncIterator[Driver]:
    async with open_driver("fake", [sys.executable, "-c", SCRIPT], folder) as driver:
        yield driver


async def test_a_result_comes_back_whatever_its_characters(tmp_path: Path) -> None:
    async with driver_of(tmp_path) as driver:
        for text in ("", "plain", "line\nbreak", "größe 消息 📨", "x" * 3_000_000):
            assert await driver.call("echo", text=text) == text
        assert await driver.call("nothing") is None


async def test_answers_find_their_callers_in_any_order(tmp_path: Path) -> None:
    answers: list[int] = []

    async with driver_of(tmp_path) as driver:

        async def hold() -> None:
            answers.append(await driver.call("hold"))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(hold)
            await trio.testing.wait_all_tasks_blocked()
            await driver.call("release")
    assert sorted(answers) == [1, 2, 3, 4, 5]


async def test_an_error_of_the_client_carries_the_code_of_the_server(tmp_path: Path) -> None:
    async with driver_of(tmp_path) as driver:
        with pytest.raises(CommandRefused) as refused:
            await driver.call("refuse")
        assert (refused.value.error, refused.value.code) == ("MQBrokerException", 13)
        with pytest.raises(CommandRefused) as refused:
            await driver.call("refuse-without-code")
        assert refused.value.code is None


async def test_a_missing_feature_is_not_an_error_of_the_client(tmp_path: Path) -> None:
    async with driver_of(tmp_path) as driver:
        with pytest.raises(NotApplicable, match="no such thing"):
            await driver.call("absent")


async def test_events_reach_the_listener_of_their_consumer(tmp_path: Path) -> None:
    heard: list[Delivery] = []
    async with driver_of(tmp_path) as driver:
        driver.listen("c", heard.append)
        driver.listen("other", lambda _: pytest.fail("not its message"))
        await driver.call("deliver")
    assert [delivery.message.body for delivery in heard] == [b"hi"]
    assert heard[0].succeeded


@pytest.mark.parametrize("command", ["die", "garbage"])
async def test_a_driver_that_dies_or_talks_nonsense_fails_its_callers(
    command: str, tmp_path: Path
) -> None:
    async with driver_of(tmp_path) as driver:
        with pytest.raises(DriverFailed, match="fake"):
            await driver.call(command)
        assert driver.is_gone
        with pytest.raises(DriverFailed):
            await driver.call("echo", text="anybody?")


async def test_a_driver_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    async with driver_of(tmp_path) as driver:
        with pytest.raises(DriverFailed, match="driver ended; out of ideas"):
            await driver.call("die")
