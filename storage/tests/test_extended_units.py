"""Extended units, as Apache's brokers write them with ``enableConsumeQueueExt=true``.

The extension is made by hand after ConsumeQueueExt of RocketMQ 5.3.3: size, tags code, store time
and size of the bit map of each message, and its place in the unit instead of the tags code.
"""

import shutil
import struct
from pathlib import Path

import pytest

from lanemq.storage import GetStatus
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.tools import diff_store, repair_store, verify_store
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    new_message,
    stored_files,
)
from lanemq.wire import tags_code
from lanemq.wire.message import decode_messages

FILES, BOTH, ROCKSDB = 1, 2, 3
UNIT = struct.Struct(">qiq")
LOWEST = -(1 << 63)
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
WANTED = frozenset({tags_code("t1")})


def extend(root: Path) -> int:
    """Give all units an extension; returns how many there are."""
    count = 0
    for directory in (root / "consumequeue").glob("*/*"):
        extension = bytearray()
        for path in sorted(directory.iterdir()):
            data = bytearray(path.read_bytes())
            for at in range(0, len(data), UNIT.size):
                position, size, code = UNIT.unpack_from(data, at)
                if not size:
                    break
                UNIT.pack_into(data, at, position, size, LOWEST + len(extension))
                extension += struct.pack(">hqqh", 20, code, 1, 0)
                count += 1
            path.write_bytes(data)
        target = root / "consumequeue_ext" / directory.parent.name / directory.name
        target.mkdir(parents=True)
        (target / f"{0:020d}").write_bytes(extension.ljust(4096, b"\0"))
    return count


@pytest.fixture
async def stand(tmp_path: Path) -> Stand:
    """A store in stage 1 with 60 messages in two queues, all units extended."""
    stand = Stand(tmp_path / "store")
    await stand.run(FILES, 60)
    assert extend(stand.root) == 60
    return stand


async def pulled(stand: Stand, stage: int) -> list[int]:
    async with stand.open(stage) as store:
        got = store.get("T", 0, 0, max_count=32, tag_codes=WANTED)
        assert got.status is GetStatus.FOUND, got
        assert got.next_offset == store.bounds("T", 0)[1]
        return [int(found.body.rstrip(b"\0")) for found in decode_messages(b"".join(got.records))]


async def test_a_pull_by_tags_finds_the_messages_of_extended_units(stand: Stand) -> None:
    wanted = [number for number in range(0, 60, 2) if number % 3 == 1]
    assert await pulled(stand, FILES) == wanted
    shutil.rmtree(stand.root / "consumequeue_ext")
    assert await pulled(stand, FILES) == wanted


async def test_units_have_the_tags_code_whatever_they_say_on_the_disk(stand: Stand) -> None:
    async with stand.open(FILES) as store:
        codes = [unit.tags_code for unit in store.units("T", 0, 0, 30)]
    assert codes == [tags_code(f"t{number % 3}") for number in range(0, 60, 2)]


async def test_a_delayed_message_of_an_extended_unit_keeps_its_time(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store", delay_levels="10s 9m")
    async with stand.open(FILES) as store:
        properties = {"DELAY": "2", "REAL_TOPIC": "T", "REAL_QID": "0"}
        stored = store.put(new_message(0, topic=SCHEDULE, queue_id=1, properties=properties))
        store.commit()
    assert extend(stand.root) == 1
    async with stand.open(FILES) as store:
        (unit,) = store.units(SCHEDULE, 1, 0, 1)
    assert unit.tags_code == stored.store_timestamp_ms + 540_000


async def test_tools_take_extended_units_for_sound(stand: Stand) -> None:
    assert verify_store(stand.root).is_sound
    before = stored_files(stand.config(FILES))
    assert repair_store(stand.root).is_sound
    assert stored_files(stand.config(FILES)) == before
    path = min((stand.root / "consumequeue/T/0").iterdir())
    path.unlink()
    assert not verify_store(stand.root).is_sound
    assert repair_store(stand.root).is_sound
    assert len(await pulled(stand, FILES)) == 10


@pytest.mark.parametrize("how", ["convert", "stage 2"])
async def test_rocksdb_gets_the_tags_codes_themselves(stand: Stand, how: str) -> None:
    if how == "convert":
        convert_to_rocksdb(stand.root)
    else:
        await stand.run(BOTH, 0)
    assert_rows_agree(stand.config(BOTH))
    report = diff_store(stand.root).report
    assert report.is_safe_to_switch
    assert report.is_ready
    wanted = [number for number in range(0, 60, 2) if number % 3 == 1]
    assert await pulled(stand, BOTH) == wanted
    assert await pulled(stand, ROCKSDB) == wanted
    convert_to_files(stand.root)
    assert verify_store(stand.root).is_sound
    assert await pulled(stand, FILES) == wanted


async def test_plain_units_follow_extended_ones(stand: Stand) -> None:
    await stand.run(FILES, 20, first=60)
    assert verify_store(stand.root).is_sound
    wanted = [number for number in range(0, 80, 2) if number % 3 == 1]
    async with stand.open(FILES) as store:
        got = store.get("T", 0, 0, max_count=32, tag_codes=WANTED)
    assert len(got.records) == len(wanted)
    convert_to_files(stand.root, from_log=True)
    assert_files_agree(stand.config(FILES))
