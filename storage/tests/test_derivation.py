"""Every index has the same of the log, whoever derives it: a start, a check, a repair, or a
conversion."""

from pathlib import Path

import pytest

from lanemq.storage import NewBatch
from lanemq.storage._layouts import pack_unit
from lanemq.storage.bulk import convert_to_rocksdb
from lanemq.storage.derive._compare import Verdict, differences, judge, same_units
from lanemq.storage.tools import repair_store, verify_store
from lanemq.testkit.storage.stages import Stand, new_message
from lanemq.wire import SysFlag
from lanemq.wire.message import BatchEntry

SENT = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
"""Properties that a client may send, to a topic whose messages have no places in light queues."""
ADDRESS = -(1 << 40)
"""A tags code that is the address of an extended unit."""


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
async def test_tools_and_starts_agree_on_who_has_places_in_light_queues(
    tmp_path: Path, topic: str
) -> None:
    stand = Stand(tmp_path / "store")
    async with stand.open(1, multi_dispatch=True) as store:
        for number in range(4):
            store.put(new_message(number, topic=topic, properties=SENT))
        store.commit()
        assert {name for name, _ in store.queues()} == {topic}
    report = verify_store(stand.root)
    assert report.is_sound
    assert report.file_units == 4
    repair_store(stand.root, everything=True)
    convert_to_rocksdb(stand.root, from_log=True)
    report = verify_store(stand.root)
    assert not (stand.root / "consumequeue/%LMQ%a").exists()
    assert (report.file_units, report.rocksdb_rows) == (4, 4)


FORGED = (
    "INNER_MULTI_DISPATCH\1%LMQ%victim\2INNER_MULTI_QUEUE_OFFSET\0010\2",
    "INNER_MULTI_QUEUE_OFFSET\0010\2INNER_MULTI_DISPATCH\1%LMQ%victim,%LMQ%own\2",
    "INNER_MULTI_QUEUE_OFFSET\0019\2INNER_MULTI_QUEUE_OFFSET\0010\2K\1v",
    "INNER_MULTI_DISPATCH\1%LMQ%victim\1x,%LMQ%victim\2\1no name\2no value\2K\1v\1w",
    "",
)
"""Properties that say where in somebody's light queue the message has its place."""


@pytest.mark.parametrize("multi_dispatch", [True, False])
@pytest.mark.parametrize("stage", [1, 3])
async def test_places_are_the_same_after_a_crash_whatever_clients_say_of_them(
    tmp_path: Path, stage: int, multi_dispatch: bool
) -> None:
    """Flags and properties of clients decide nothing that dispatch from the log goes by."""
    stand, killed = Stand(tmp_path / "store"), tmp_path / "killed"
    async with stand.open(stage, multi_dispatch=True) as store:
        for number in range(3):
            properties = {"INNER_MULTI_DISPATCH": "%LMQ%victim"}
            store.put(new_message(number, topic="Own", properties=properties))
        store.commit()
    async with stand.open(stage, multi_dispatch=multi_dispatch) as store:
        flags = [0, *(1 << bit for bit in range(31)), 0x7FFFFFFF & ~SysFlag.TRANSACTION_MASK]
        for number, flag in enumerate(flags):
            forged = FORGED[number % len(FORGED)].encode()
            message = new_message(number)
            message.properties, message.sys_flag = forged, flag
            store.put(message)
            if flag & SysFlag.TRANSACTION_MASK:
                continue
            entries = [BatchEntry(0, b"x", forged), BatchEntry(0, b"y", b"")]
            store.put_batch(
                NewBatch(
                    topic="B",
                    queue_id=0,
                    entries=entries,
                    sys_flag=flag,
                    born_timestamp_ms=message.born_timestamp_ms,
                    born_host=message.born_host,
                    store_host=message.store_host,
                )
            )
        store.commit()
        before = {queue: store.bounds(*queue) for queue in store.queues()}
        stand.kill(killed)
    assert before["B", 0] == (0, 2 * (len(flags) - 2)), "a batch is no transaction's"
    assert verify_store(stand.root).is_sound
    async with Stand(killed).open(stage, multi_dispatch=True) as store:
        assert {queue: store.bounds(*queue) for queue in store.queues()} == before


def units(*fields: tuple[int, int, int]) -> bytes:
    return b"".join(pack_unit(*unit) for unit in fields)


@pytest.mark.parametrize(
    ("found", "is_schedule", "verdict"),
    [
        ((100, 50, 7), False, Verdict.SAME),
        ((100, 50, 8), False, Verdict.TAGS),
        ((100, 50, 8), True, Verdict.SAME),
        ((100, 50, ADDRESS), False, Verdict.SAME),
        ((101, 50, ADDRESS), False, Verdict.MOVED),
        ((100, 51, 7), True, Verdict.MOVED),
        ((0, 2147483647, 0), False, Verdict.BLANK),
        ((0, 0, 0), False, Verdict.BLANK),
    ],
)
def test_one_unit_is_judged(
    found: tuple[int, int, int], is_schedule: bool, verdict: Verdict
) -> None:
    assert judge(found, (100, 50, 7), is_schedule=is_schedule) is verdict


def test_differences_are_those_units_that_are_not_as_good() -> None:
    wanted = units((0, 50, 1), (50, 50, 2), (100, 50, 3), (150, 50, 4), (200, 50, 5))
    found = units((0, 50, 1), (50, 50, ADDRESS), (100, 50, 9), (0, 2147483647, 0))
    assert same_units(found, wanted) == 1
    assert list(differences(found, wanted)) == [
        (2, Verdict.TAGS),
        (3, Verdict.BLANK),
        (4, Verdict.ABSENT),
    ]
    assert list(differences(wanted, wanted)) == []
    assert list(differences(wanted + wanted, wanted)) == []
