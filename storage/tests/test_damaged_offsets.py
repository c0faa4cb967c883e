"""A damaged queue offset in a record's head, which no checksum covers: one message is lost."""

import random
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage import GetStatus, Store
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.cli import store as store_tools
from lanemq.storage.tools import Severity, repair_store, verify_store
from lanemq.testkit.storage.stages import Stand
from lanemq.wire.message import decode_messages

QUEUE_OFFSET_AT = 20
MESSAGES = 40
DAMAGED = 18
"""The message, of queue 0, whose offset is 9."""
NEGATIVE, HUGE, LARGE = 1 << 63, 1 << 60, 1 << 40
"""Bits of an offset: with the second one it is more than any log can hold, with the third one more
than lie between the message and the one before it."""
BACK, AGAIN, FORWARD = 8, 9, 4
"""Bits of an offset, with which it is another one of the queue's, 1, 0 or 13."""
POSSIBLE = (BACK, AGAIN, FORWARD, LARGE)


async def damaged(
    stand: Stand, stage: int, bits: int, *, number: int = DAMAGED, killed_at: Path | None = None
) -> int:
    """Fill a store and close it, or kill it, then flip bits of an offset; returns where the message
    is."""
    async with stand.open(stage) as store:
        stand.put(store, MESSAGES)
        await store.in_rocksdb(store.max_position) if stage != 1 else None
        at = store.get("T", number % 2, number // 2, max_count=1)
        position = decode_messages(b"".join(at.records))[0].log_position
        if killed_at is not None:
            stand.kill(killed_at)
    file_bytes = stand.config(stage).commit_log_file_bytes
    path = stand.root / f"commitlog/{position // file_bytes * file_bytes:020d}"
    data = bytearray(path.read_bytes())
    at_byte = position % file_bytes + QUEUE_OFFSET_AT
    (offset,) = struct.unpack_from(">Q", data, at_byte)
    struct.pack_into(">Q", data, at_byte, offset ^ bits)
    path.write_bytes(data)
    return position


def served(store: Store, queue_id: int = 0) -> list[tuple[int, int]]:
    """Offset and number of each message that a reader gets."""
    found: list[tuple[int, int]] = []
    begin, end = store.bounds("T", queue_id)
    while begin < end:
        got = store.get("T", queue_id, begin, max_count=32)
        if got.status is GetStatus.FOUND:
            found += [
                (message.queue_offset, int(message.body.rstrip(b"\0")))
                for message in decode_messages(b"".join(got.records))
            ]
        assert got.next_offset > begin
        begin = got.next_offset
    return found


EXPECTED = [(number // 2, number) for number in range(0, MESSAGES, 2) if number != DAMAGED]


@pytest.mark.parametrize("bits", [NEGATIVE, HUGE])
@pytest.mark.parametrize("stage", [1, 2, 3])
async def test_a_message_with_an_impossible_offset_is_passed_over(
    tmp_path: Path, stage: int, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    await damaged(stand, stage, bits)
    async with stand.open(stage) as store:
        assert served(store) == EXPECTED
        assert store.statistics().damaged_pieces == 1


@pytest.mark.parametrize("bits", [NEGATIVE, HUGE])
@pytest.mark.parametrize("stage", [1, 2, 3])
async def test_an_impossible_offset_is_named_as_damage(
    tmp_path: Path, stage: int, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    await damaged(stand, stage, bits)
    problems = [
        found for found in verify_store(stand.root).findings if found.severity is Severity.PROBLEM
    ]
    assert any("impossible queue offset" in found.what for found in problems), problems


@pytest.mark.slow
@pytest.mark.parametrize("bits", [NEGATIVE, HUGE, LARGE])
@pytest.mark.parametrize("stage", [1, 2, 3])
async def test_a_repair_of_everything_keeps_all_others(
    tmp_path: Path, stage: int, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    await damaged(stand, stage, bits)
    settings = tmp_path / "broker.conf"
    settings.write_text("mappedFileSizeConsumeQueue=200\n")
    options = ["--all", "--jobs", "1", "-c", str(settings)]
    result = CliRunner().invoke(store_tools, ["repair", str(stand.root), *options])
    assert result.exit_code == 1, result.output  # what is damaged stays damaged
    async with stand.open(stage) as store:
        assert set(EXPECTED) <= set(served(store))
        assert store.bounds("T", 0)[1] == MESSAGES // 2


@pytest.mark.parametrize("bits", [NEGATIVE, HUGE])
@pytest.mark.parametrize("target", ["files", "rocksdb"])
async def test_a_conversion_by_the_log_keeps_all_others(
    tmp_path: Path, target: str, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    stage = 3 if target == "files" else 1
    await damaged(stand, stage, bits)
    if target == "files":
        convert_to_files(stand.root, from_log=True, queue_file_bytes=200)
    else:
        convert_to_rocksdb(stand.root, from_log=True)
    async with stand.open(4 - stage) as store:
        assert set(EXPECTED) <= set(served(store))
        assert store.bounds("T", 0)[1] == MESSAGES // 2


@pytest.mark.slow
@pytest.mark.parametrize("bits", POSSIBLE)
@pytest.mark.parametrize("stage", [1, 3])
async def test_a_start_after_a_kill_loses_one_message_to_a_possible_offset(
    tmp_path: Path, stage: int, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    await damaged(stand, stage, bits, killed_at=tmp_path / "killed")
    async with stand.open(stage) as store:
        assert served(store) == EXPECTED
        assert store.bounds("T", 0) == (0, MESSAGES // 2)
        assert store.statistics().damaged_pieces == 1


@pytest.mark.slow
@pytest.mark.parametrize("bits", POSSIBLE)
@pytest.mark.parametrize("stage", [1, 3])
async def test_a_start_after_a_stop_serves_no_message_under_another_number(
    tmp_path: Path, stage: int, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    await damaged(stand, stage, bits)
    for _ in range(2):
        async with stand.open(stage) as store:
            assert served(store) == EXPECTED
            assert store.bounds("T", 0) == (0, MESSAGES // 2)
            assert store.statistics().damaged_pieces == 1


async def test_a_reader_of_what_no_start_checked_passes_over_such_a_message(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store", commit_log_file_bytes=1 << 11)
    await damaged(stand, 1, FORWARD, number=4)
    async with stand.open(1) as store:
        assert store.statistics().damaged_pieces == 0
        expected = [(number // 2, number) for number in range(0, MESSAGES, 2) if number != 4]
        assert served(store) == expected
        assert store.statistics().damaged_pieces == 1


async def test_the_newest_message_keeps_its_slot(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await damaged(stand, 1, 16, number=MESSAGES - 2, killed_at=tmp_path / "killed")
    async with stand.open(1) as store:
        assert store.bounds("T", 0) == (0, MESSAGES // 2)
        stand.put(store, 2, first=MESSAGES)
        assert served(store)[-1] == (MESSAGES // 2, MESSAGES)


@pytest.mark.slow
@pytest.mark.parametrize("bits", POSSIBLE)
@pytest.mark.parametrize("from_log", [False, True])
@pytest.mark.parametrize("target", ["files", "rocksdb"])
async def test_a_conversion_lists_a_message_with_a_possible_offset_and_takes_the_others(
    tmp_path: Path, target: str, from_log: bool, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    stage = 3 if target == "files" else 1
    position = await damaged(stand, stage, bits)
    if target == "files":
        done = convert_to_files(stand.root, from_log=from_log, queue_file_bytes=200)
    else:
        done = convert_to_rocksdb(stand.root, from_log=from_log)
    assert [found.log_position for found in done.damaged] == [position]
    assert not done.unplaced
    async with stand.open(4 - stage) as store:
        assert served(store) == EXPECTED
        assert store.bounds("T", 0)[1] == MESSAGES // 2


async def test_the_command_names_the_message_and_the_way_on(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    position = await damaged(stand, 1, BACK)
    result = CliRunner().invoke(store_tools, ["convert", str(stand.root), "--to", "rocksdb"])
    assert result.exit_code == 1, result.output
    assert f"problem: the message at {position} of the log, offset 1 of queue 0 of T" in (
        result.output
    )
    assert "dump" in result.output
    assert "--from-log" in result.output


@pytest.mark.parametrize("bits", POSSIBLE)
@pytest.mark.parametrize("stage", [1, 3])
async def test_verify_names_a_possible_offset_as_damage(
    tmp_path: Path, stage: int, bits: int
) -> None:
    stand = Stand(tmp_path / "store")
    position = await damaged(stand, stage, bits)
    (found,) = [
        found for found in verify_store(stand.root).findings if found.severity is Severity.PROBLEM
    ]
    assert (found.kind, found.log_position) == ("damaged-offset", position)
    assert "contradict its offset" in found.what
    assert "dump" in found.way_on


async def keep(_stand: Stand) -> None:
    """Start the store as it is."""


async def convert(stand: Stand) -> None:
    convert_to_rocksdb(stand.root)


async def convert_by_log(stand: Stand) -> None:
    convert_to_rocksdb(stand.root, from_log=True)


async def convert_back(stand: Stand) -> None:
    convert_to_files(stand.root, queue_file_bytes=200)


async def convert_back_by_log(stand: Stand) -> None:
    convert_to_files(stand.root, from_log=True, queue_file_bytes=200)


async def fix(stand: Stand) -> None:
    repair_store(stand.root, everything=True, jobs=1, queue_file_bytes=200)


async def write_both(stand: Stand) -> None:
    async with stand.open(2) as store:
        await store.in_rocksdb(store.max_position)


STEPS = [
    (1, keep, 1),
    (3, keep, 3),
    (3, keep, 1),
    (1, convert, 3),
    (1, convert_by_log, 3),
    (3, convert_back, 1),
    (3, convert_back_by_log, 1),
    (1, fix, 1),
    (3, fix, 3),
    (1, write_both, 3),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("stage", "step", "then"), STEPS)
async def test_no_step_loses_more_than_the_message_with_the_flipped_bit(
    tmp_path: Path, stage: int, step: Callable[[Stand], Awaitable[None]], then: int, seed: int
) -> None:
    rng = random.Random(f"{stage} {step.__name__} {then} {seed}")
    size = rng.choice([1 << 11, 1 << 12, 1 << 14])
    stand = Stand(tmp_path / "store", commit_log_file_bytes=size)
    number = 2 * rng.randrange(MESSAGES // 2)
    offset, bits = number // 2, 1 << rng.randrange(50)
    if number == MESSAGES - 2 and (offset ^ bits > offset or not offset ^ bits):
        bits = 1  # the newest message may go on anywhere, or begin again
    # A repair goes by the tables of topics, which no broker wrote here.
    killed = tmp_path / "killed" if step is not fix and rng.random() < 0.5 else None
    await damaged(stand, stage, bits, number=number, killed_at=killed)
    await step(stand)
    async with stand.open(then) as store:
        found = served(store)
        others = [(one // 2, one) for one in range(0, MESSAGES, 2) if one != number]
        assert [one for one in found if one[1] != number] == others, (number, bits, killed, size)
        assert store.bounds("T", 0)[1] == MESSAGES // 2
        assert all(one == (offset ^ bits, number) for one in found if one[1] == number)
