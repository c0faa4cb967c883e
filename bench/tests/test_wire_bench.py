"""The bench of the wire runs, and measures what it says it does."""

import json

import pytest
from click.testing import CliRunner

from lanemq.bench._wire import (
    BODY,
    PROPERTIES,
    RECORD,
    SEND,
    SEND_FRAME,
    TOPIC,
    measure,
    wire,
)
from lanemq.wire.frame import decode_frame
from lanemq.wire.headers import SendMessageV2
from lanemq.wire.message import decode_message

STEPS = {"read send request", "write send answer", "read stored message", "write stored message"}


def test_what_is_timed_is_a_send_and_its_record() -> None:
    frame = decode_frame(SEND_FRAME[4:])
    assert SendMessageV2.from_fields(frame.fields) == SEND
    message = decode_message(RECORD, check_crc=True)
    assert (message.topic, message.body, message.properties_data) == (TOPIC, BODY, PROPERTIES)


def test_each_step_has_a_time_a_floor_and_their_ratio() -> None:
    result = measure(count=2, rounds=1)
    assert result["steps"].keys() == STEPS
    for step in result["steps"].values():
        assert step["us"] > 0
        assert step["floor_us"] > 0
        # Rounded for people: 0 where the process was held up for long.
        assert step["per_second"] == pytest.approx(1e6 / step["us"], abs=1, rel=0.01)
        assert step["ratio"] == pytest.approx(step["us"] / step["floor_us"], abs=0.01, rel=0.01)


def test_the_command_prints_a_table_or_one_json_object() -> None:
    arguments = ["--count", "2", "--rounds", "1"]
    table = CliRunner().invoke(wire, arguments, catch_exceptions=False)
    assert [line[:22].strip() for line in table.output.splitlines()[1:]] == [
        "read send request",
        "write send answer",
        "read stored message",
        "write stored message",
    ]
    printed = CliRunner().invoke(wire, [*arguments, "--json"], catch_exceptions=False)
    assert json.loads(printed.output)["steps"].keys() == STEPS
