"""Bench of the wire codec, next to the least that any codec in Python has to do.

The floor is the same work with bare ``struct`` and ``msgspec``: no checks, no types, no names.
A ratio of 2 means that checking, naming and typing cost as much again as parsing itself.
"""

import json
import platform
import statistics
import struct
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import click
import msgspec

from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.frame import Frame, decode_split, encode_frame, request, split_frames
from lanemq.wire.headers import SendMessageResponse, SendMessageV2
from lanemq.wire.message import decode_message, encode_record

from ._command import json_option

BODY: Final = b"x" * 256
TOPIC: Final = "BenchTopic"
PROPERTIES: Final = b"KEYS\x01order-4711\x02UNIQ_KEY\x01" + b"0" * 32 + b"\x02TAGS\x01TagA\x02"
BORN_HOST: Final = HostAddress("10.0.0.7", 51234).packed
STORE_HOST: Final = HostAddress("10.0.0.1", 10911).packed
NOW_MS: Final = 1_700_000_000_000

_HEAD = struct.Struct(">II")
_FIXED_RECORD = struct.Struct(">iiiiiqqiq8sq8siqi")

SEND: Final = SendMessageV2(
    producer_group="bench_producer",
    topic=TOPIC,
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=NOW_MS,
    flag=0,
    properties=PROPERTIES.decode(),
    reconsume_times=0,
)
SEND_FRAME: Final = encode_frame(
    request(RequestCode.SEND_MESSAGE_V2, SEND.to_fields(), BODY, opaque=7)
)
REPLY: Final = SendMessageResponse(
    msg_id="0A00000100002A9F0000000000000400",
    queue_id=1,
    queue_offset=42,
    msg_region="DefaultRegion",
    trace_on=True,
)
RECORD_PARTS: Final[dict[str, Any]] = {
    "topic": TOPIC.encode(),
    "body": BODY,
    "properties": PROPERTIES,
    "queue_id": 1,
    "flag": 0,
    "queue_offset": 42,
    "log_position": 1024,
    "sys_flag": 0,
    "born_timestamp_ms": NOW_MS,
    "born_host": BORN_HOST,
    "store_timestamp_ms": NOW_MS + 1,
    "store_host": STORE_HOST,
}
RECORD: Final = encode_record(**RECORD_PARTS)


def read_send() -> None:
    """Read a send request: bytes to typed header."""
    frame = decode_split(split_frames(SEND_FRAME)[0][0])
    SendMessageV2.from_fields(frame.fields)


def read_send_barely() -> None:
    buffer = bytearray(SEND_FRAME)
    length, header_length = _HEAD.unpack_from(buffer)
    end = 8 + header_length
    msgspec.json.decode(buffer[8:end])
    bytes(buffer[end : 4 + length])


_REQUEST: Final = Frame(RequestCode.SEND_MESSAGE_V2, opaque=7)
_BARE_REPLY: Final = {
    "code": 0,
    "language": "PYTHON",
    "version": 409,
    "opaque": 7,
    "flag": 1,
    "extFields": REPLY.to_fields(),
}


def write_reply() -> None:
    """Write the answer of a send: typed header to bytes."""
    encode_frame(_REQUEST.reply(0, REPLY.to_fields()))


def write_reply_barely() -> None:
    header = msgspec.json.encode(_BARE_REPLY)
    b"".join((_HEAD.pack(4 + len(header), len(header)), header))


def read_record() -> None:
    """Read a stored message: record to value."""
    decode_message(RECORD)


def read_record_barely() -> None:
    fixed = _FIXED_RECORD.unpack_from(RECORD)
    body_end = _FIXED_RECORD.size + fixed[-1]
    topic_end = body_end + 1 + RECORD[body_end]
    RECORD[_FIXED_RECORD.size : body_end]
    RECORD[body_end + 1 : topic_end].decode()
    RECORD[topic_end + 2 :]


def write_record() -> None:
    """Write a stored message: values to record, checksum included."""
    encode_record(**RECORD_PARTS)


def write_record_barely() -> None:
    topic, body, properties = TOPIC.encode(), BODY, PROPERTIES
    b"".join(
        (
            _FIXED_RECORD.pack(
                _FIXED_RECORD.size + len(body) + 1 + len(topic) + 2 + len(properties),
                -626843481,
                0,
                1,
                0,
                42,
                1024,
                0,
                NOW_MS,
                BORN_HOST,
                NOW_MS + 1,
                STORE_HOST,
                0,
                0,
                len(body),
            ),
            body,
            bytes((len(topic),)),
            topic,
            len(properties).to_bytes(2),
            properties,
        )
    )


PAIRS: Final[dict[str, tuple[Callable[[], None], Callable[[], None]]]] = {
    "read send request": (read_send, read_send_barely),
    "write send answer": (write_reply, write_reply_barely),
    "read stored message": (read_record, read_record_barely),
    "write stored message": (write_record, write_record_barely),
}


def _once_us(step: Callable[[], None], count: int) -> float:
    started = perf_counter_ns()
    for _ in range(count):
        step()
    return (perf_counter_ns() - started) / count / 1000


def measure(*, count: int = 20_000, rounds: int = 7) -> dict[str, Any]:
    """Time each step ``count`` times in a row, in ``rounds`` rounds, and its floor beside it.

    The times are the medians of the rounds, in microseconds per call; a step and its floor take
    turns, so that a busy machine slows both. ``ratio`` is the one over the other, and
    ``per_second`` how often the step runs in a second.
    """
    steps = {}
    for name, (step, floor) in PAIRS.items():
        times = [(_once_us(step, count), _once_us(floor, count)) for _ in range(rounds)]
        step_us = statistics.median(time for time, _ in times)
        floor_us = statistics.median(time for _, time in times)
        steps[name] = {
            "us": round(step_us, 3),
            "floor_us": round(floor_us, 3),
            "ratio": round(step_us / floor_us, 2),
            "per_second": round(1_000_000 / step_us),
        }
    return {
        "bench": "wire",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "count": count,
        "rounds": rounds,
        "body_bytes": len(BODY),
        "steps": steps,
    }


@click.command()
@click.option("--count", default=20_000, show_default=True, type=click.IntRange(min=1))
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(min=1))
@json_option
def wire(count: int, rounds: int, as_json: bool) -> None:
    """Time the wire codec next to bare struct and msgspec."""
    result = measure(count=count, rounds=rounds)
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(f"{'step':<22}{'us':>9}{'floor us':>10}{'ratio':>8}{'per second':>13}")
    for name, step in result["steps"].items():
        click.echo(
            f"{name:<22}{step['us']:>9.2f}{step['floor_us']:>10.2f}"
            f"{step['ratio']:>8.2f}{step['per_second']:>13,}"
        )
