"""Extended units of a real broker: what it writes is what lanemq takes it for, and it reads plain
units that lanemq puts between its own."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lanemq.compat import StoreStand, walk_log
from lanemq.storage import Stage
from lanemq.wire import RequestCode, tags_code
from lanemq.wire.message import decode_messages

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

TOPIC, QUEUE = "extended", 0
EXTENDED = {"enableConsumeQueueExt": "true"}
UNIT = struct.Struct(">qiq")
EXTENSION = struct.Struct(">hqqh")
LOWEST = -(1 << 63)
ADDRESS_MAX = -(1 << 31) - 1
FOUND = 0


class Unit(NamedTuple):
    log_position: int
    size_bytes: int
    tags_code: int


def units(store: Path) -> Iterator[Unit]:
    """Iterate over the units of the queue's files."""
    for path in sorted((store / "consumequeue" / TOPIC / str(QUEUE)).iterdir()):
        for fields in UNIT.iter_unpack(path.read_bytes()):
            if fields[1]:
                yield Unit(*fields)


def are_extended(store: Path) -> list[bool]:
    return [unit.tags_code <= ADDRESS_MAX for unit in units(store)]


def extension(store: Path, address: int) -> tuple[int, int]:
    """Return the tags code and the store time that an extended unit has."""
    directory = store / "consumequeue_ext" / TOPIC / str(QUEUE)
    at = address - LOWEST
    files = sorted(directory.iterdir())
    start, path = max((int(path.name), path) for path in files if int(path.name) <= at)
    size_bytes, code, store_ms, map_bytes = EXTENSION.unpack_from(path.read_bytes(), at - start)
    assert size_bytes == EXTENSION.size + map_bytes
    return code, store_ms


async def pull(stand: StoreStand, tags: str) -> list[bytes]:
    """Return the bodies that a pull from the first offset on finds for tags."""
    fields = {
        "consumerGroup": "extended-group",
        "topic": TOPIC,
        "queueId": str(QUEUE),
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": tags,
        "subVersion": "0",
        "expressionType": "TAG",
    }
    reply = await stand.ask(RequestCode.PULL_MESSAGE, fields)
    assert reply.code == FOUND, reply
    return [found.body for found in decode_messages(reply.body)]


@pytest.mark.parametrize("apache", ["apache-4.9.7", "apache-5.3.3"])
async def test_extended_units_of_apache_and_plain_ones_of_lanemq(
    apache: str, tmp_path: Path
) -> None:
    stand = StoreStand(tmp_path)
    bodies = {tags: [b"%s %d" % (tags.encode(), n) for n in range(4)] for tags in ("T1", "T2")}
    async with stand.run(apache, Stage.FILES, settings=EXTENDED):
        await stand.make_topic(TOPIC, 1)
        for tags, some in bodies.items():
            await stand.send(TOPIC, QUEUE, some, tags=tags)
        assert await pull(stand, "T2") == bodies["T2"]

    records = {record.log_position: record for record in walk_log(stand.store)}
    written = list(units(stand.store))
    assert len(written) == 8
    for number, unit in enumerate(written):
        assert unit.tags_code <= ADDRESS_MAX, "the broker wrote a plain unit"
        code, store_ms = extension(stand.store, unit.tags_code)
        assert code == tags_code("T1" if number < 4 else "T2")
        assert store_ms == records[unit.log_position].store_timestamp_ms
    assert "the store is sound" in await stand.tool("verify")

    async with stand.run("lanemq", Stage.FILES):
        assert await pull(stand, "T1") == bodies["T1"]
        assert await pull(stand, "T2") == bodies["T2"]
        bodies["T1"] += [b"plain 1"]
        bodies["T2"] += [b"plain 2"]
        await stand.send(TOPIC, QUEUE, [b"plain 1"], tags="T1")
        await stand.send(TOPIC, QUEUE, [b"plain 2"], tags="T2")
    assert are_extended(stand.store) == [True] * 8 + [False] * 2

    async with stand.run(apache, Stage.FILES, settings=EXTENDED):
        assert await pull(stand, "T1") == bodies["T1"]
        assert await pull(stand, "T2") == bodies["T2"]
        bodies["T2"] += [b"extended again"]
        assert await stand.send(TOPIC, QUEUE, [b"extended again"], tags="T2") == [10]
        assert await pull(stand, "T2") == bodies["T2"]
    assert are_extended(stand.store)[8:] == [False, False, True]
    assert "the store is sound" in await stand.tool("verify")
    await stand.tool("convert", "--to", "rocksdb")
    assert "loses nothing" in await stand.tool("diff-consume-queue")
