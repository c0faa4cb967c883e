"""Every index has the same of the log, whoever derives it: a start, a check, a repair, or a
conversion."""

from pathlib import Path

import pytest

from lanemq.storage._layouts import pack_unit
from lanemq.storage.bulk import convert_to_rocksdb
from lanemq.storage.derive._compare import Verdict, differences, judge, same_units
from lanemq.storage.tools import repair_store, verify_store
from lanemq.testkit.storage.stages import Stand, new_message

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
