"""The rule of sides as a table, and the results of merges, without any database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.tables.rocks._rows import OFFSETS, TOPICS, Kind, parse_offsets
from lanemq.storage.tables.rocks._rule import (
    Direction,
    JsonSide,
    Later,
    Loss,
    Marker,
    RocksSide,
    contents_sha256,
    differing,
    direction,
    is_overwritten,
    loss,
    merged,
)

A, B = b'{"a":1}', b'{"a":2}'
JSON_DIGEST = "sha of the file"


def json_side(rows: dict[str, bytes], counter: int = 0) -> JsonSide:
    return JsonSide(rows, counter=counter, sha256=JSON_DIGEST)


def rocks_side(rows: dict[str, bytes], counter: int | None, marker: Marker | None) -> RocksSide:
    digest = contents_sha256(rows, b"{}")
    return RocksSide(rows, sha256=digest, counter=counter, marker=marker)


def seen(counter: int = 0, rocks: dict[str, bytes] | None = None) -> Marker:
    """The marker of another JSON file."""
    digest = contents_sha256(rocks, b"{}") if rocks is not None else ""
    return Marker(counter, "sha of another file", digest)


def exported(rocks: dict[str, bytes]) -> Marker:
    """The marker of an export of these rows into this JSON file."""
    return Marker(2, JSON_DIGEST, contents_sha256(rocks, b"{}"))


OLD, NEW = {"T@g": A}, {"T@g": B}

CASES = [
    # what, kind, JSON rows and counter, RocksDB rows, counter and marker, written last, direction
    ("no JSON", TOPICS, {}, 0, {"T": A}, 3, None, Later.JSON, Direction.KEEP),
    ("row 5", OFFSETS, {"T@g": A}, 0, {}, None, None, Later.ROCKSDB, Direction.MERGE),
    ("first start", TOPICS, {"T": A}, 2, {}, None, None, Later.JSON, Direction.MERGE),
    ("row 1", TOPICS, {"T": A}, 2, {"T": B}, None, None, Later.ROCKSDB, Direction.MERGE),
    ("agree", TOPICS, {"T": A}, 9, {"T": A}, 3, None, Later.JSON, Direction.KEEP),
    ("row 3, counter", TOPICS, {"T": A}, 5, {"T": B}, 4, None, Later.ROCKSDB, Direction.MERGE),
    ("row 3, equal", TOPICS, {"T": A}, 4, {"T": B}, 4, None, Later.JSON, Direction.MERGE),
    ("equal, copied", TOPICS, {"T": A}, 4, {"T": B}, 4, None, Later.UNKNOWN, Direction.ADD),
    ("equal, RocksDB last", TOPICS, {"T": A}, 4, {"T": B}, 4, None, Later.ROCKSDB, Direction.KEEP),
    ("row 4", TOPICS, {"T": A}, 3, {"T": B}, 4, None, Later.ROCKSDB, Direction.KEEP),
    ("4.9 counts again", TOPICS, {"T": A}, 3, {"T": B}, 4, None, Later.JSON, Direction.MERGE),
    ("row 4, copied", TOPICS, {"T": A}, 3, {"T": B}, 4, None, Later.UNKNOWN, Direction.ADD),
    ("row 2", OFFSETS, {"T@g": A}, 3, {"T@g": B}, 4, None, Later.JSON, Direction.MERGE),
    ("5.3.3 went on", OFFSETS, {"T@g": A}, 0, {"T@g": B}, None, None, Later.ROCKSDB, Direction.ADD),
    ("doubt", OFFSETS, {"T@g": A}, 0, {"T@g": B}, None, None, Later.UNKNOWN, Direction.SMALLER),
    (
        "offsets counter",
        OFFSETS,
        {"T@g": A},
        5,
        {"T@g": B},
        4,
        None,
        Later.ROCKSDB,
        Direction.MERGE,
    ),
    ("row 3, marker", TOPICS, {"T": A}, 4, {"T": B}, 9, seen(4), Later.JSON, Direction.MERGE),
    ("marker, copied", TOPICS, {"T": A}, 4, {"T": B}, 9, seen(4), Later.UNKNOWN, Direction.MERGE),
    ("counts again", TOPICS, {"T": A}, 3, {"T": B}, 9, seen(4), Later.JSON, Direction.MERGE),
    ("no count", OFFSETS, OLD, 0, NEW, 9, seen(4), Later.JSON, Direction.MERGE),
    ("both, copied", OFFSETS, OLD, 0, NEW, 9, seen(4), Later.UNKNOWN, Direction.SMALLER),
    (
        "marker, RocksDB last",
        TOPICS,
        {"T": A},
        4,
        {"T": B},
        9,
        seen(4),
        Later.ROCKSDB,
        Direction.ADD,
    ),
    (
        "only JSON changed",
        TOPICS,
        {"T": A},
        4,
        {"U": B},
        9,
        seen(4, {"U": B}),
        Later.JSON,
        Direction.REPLACE,
    ),
    *[
        (
            f"only JSON changed, {later.value} last",
            OFFSETS,
            OLD,
            0,
            NEW,
            9,
            seen(4, NEW),
            later,
            Direction.REPLACE,
        )
        for later in Later
    ],
]


@pytest.mark.parametrize(
    ("kind", "json", "json_counter", "rocks", "counter", "marker", "later", "expected"),
    [case[1:] for case in CASES],
    ids=[str(case[0]) for case in CASES],
)
def test_the_direction_of_a_start_with_rocksdb(
    kind: Kind,
    json: dict[str, bytes],
    json_counter: int,
    rocks: dict[str, bytes],
    counter: int | None,
    marker: Marker | None,
    later: Later,
    expected: Direction,
) -> None:
    sides = json_side(json, json_counter), rocks_side(rocks, counter, marker)
    assert direction(kind, *sides, later).direction is expected


def test_a_json_file_that_was_seen_before_never_counts_again() -> None:
    last = Marker(7, JSON_DIGEST, contents_sha256({"T": A}, b"{}"))
    older = Marker(8, "sha of another file").after(last)
    for marker in (last, older):
        rocks = rocks_side({"T": B}, 8, marker)
        for later in Later:
            verdict = direction(TOPICS, json_side({"T": A}, 7), rocks, later)
            assert verdict.direction is Direction.KEEP
            assert loss(json_side({"T": A}, 7), rocks, later) is Loss.ROWS
            assert not is_overwritten(json_side({"T": A}, 7), rocks, later)


def test_a_marker_knows_the_files_before_it_and_a_file_only_once() -> None:
    marker = Marker(0, "0")
    for number in range(1, 40):
        marker = Marker(number, str(number)).after(marker)
    assert marker.older_json == tuple(str(number) for number in range(23, 39))
    back = Marker(39, "30").after(marker)
    assert "30" not in back.older_json
    assert back.older_json[-1] == "39"
    assert Marker.parse(b'{"jsonCounter":3,"jsonSha256":"a","rocksSha256":"b"}').older_json == ()


def test_what_was_passed_over_is_added_when_the_settings_allow_it() -> None:
    rocks = rocks_side({"T": B}, 8, Marker(7, JSON_DIGEST, suppressed=True))
    verdict = direction(TOPICS, json_side({"T": A, "U": A}, 7), rocks, Later.ROCKSDB)
    assert verdict.direction is Direction.ADD
    assert merged(TOPICS, verdict.direction, {"T": A, "U": A}, rocks.rows) == {"T": B, "U": A}


@pytest.mark.parametrize(
    ("json", "rocks", "marker", "counter", "later", "lost"),
    [
        ({"T": A, "U": A}, {"T": A}, None, 3, Later.ROCKSDB, Loss.NOTHING),
        ({"T": A}, {"T": B}, None, 3, Later.JSON, Loss.OVERTAKEN),  # files were used since
        ({"T": A}, {"T": B}, None, 3, Later.ROCKSDB, Loss.ROWS),
        ({"T": A}, {"T": B}, None, 3, Later.UNKNOWN, Loss.EITHER),
        ({"T": A}, {"T": B}, None, 1, Later.ROCKSDB, Loss.OVERTAKEN),  # the higher version
        ({}, {"T": B}, None, None, Later.JSON, Loss.ROWS),
        ({"T": A}, {"T": B}, seen(2), 3, Later.JSON, Loss.OVERTAKEN),
        ({"T": A}, {"T": B}, seen(2), 3, Later.UNKNOWN, Loss.EITHER),
        ({"T": A}, {"T": B}, seen(2), 3, Later.ROCKSDB, Loss.EITHER),
        ({"T": A}, {"T": B}, seen(3), 3, Later.JSON, Loss.OVERTAKEN),  # 4.9 counts again
        ({"T": A}, {"T": B}, seen(3, {"T": B}), 3, Later.ROCKSDB, Loss.NOTHING),
        ({"T": A}, {"T": B}, exported({"T": B}), 3, Later.JSON, Loss.NOTHING),
        ({"T": A}, {"T": B}, exported({"T": A}), 3, Later.JSON, Loss.ROWS),
    ],
)
def test_when_a_start_with_files_would_lose_something(
    json: dict[str, bytes],
    rocks: dict[str, bytes],
    marker: Marker | None,
    counter: int | None,
    later: Later,
    lost: Loss,
) -> None:
    sides = json_side(json, 2), rocks_side(rocks, counter, marker)
    assert loss(*sides, later) is lost
    if lost is Loss.ROWS and marker is not None:
        assert not is_overwritten(*sides, later)
    if lost in (Loss.EITHER, Loss.OVERTAKEN):
        assert is_overwritten(*sides, later)


OFFSET_TABLES = st.dictionaries(
    st.sampled_from(["T@g", "T@h", "U@g"]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 1 << 60), min_size=1),
)


@given(OFFSET_TABLES, OFFSET_TABLES, st.sampled_from(Direction))
def test_a_merge_of_offsets_forgets_no_queue_and_takes_one_side(
    json: dict[str, dict[int, int]], rocks: dict[str, dict[int, int]], how: Direction
) -> None:
    sides = [{name: OFFSETS.row(queues) for name, queues in side.items()} for side in (json, rocks)]
    after = {
        name: parse_offsets(OFFSETS.entry(row))
        for name, row in merged(OFFSETS, how, sides[0], sides[1]).items()
    }
    if how is Direction.REPLACE:
        assert after == json
        return
    if how is Direction.KEEP:
        assert after == rocks
        return
    assert after.keys() == json.keys() | rocks.keys()
    for name, queues in after.items():
        both = json.get(name, {}), rocks.get(name, {})
        assert queues.keys() == both[0].keys() | both[1].keys()
        for queue_id, offset in queues.items():
            known = [side[queue_id] for side in both if queue_id in side]
            if how is Direction.SMALLER:
                assert offset == min(known)
            else:
                assert offset == known[0 if how is Direction.MERGE else -1]
        # A merge is repeatable: what it left, merged again, stays.
    again = {name: OFFSETS.row(queues) for name, queues in after.items()}
    assert merged(OFFSETS, how, sides[0], again) == again


def test_markers_come_back_and_differences_are_named() -> None:
    marker = Marker(3, "a", "b", suppressed=True)
    assert Marker.parse(marker.row()) == marker
    assert marker.row().startswith(b'{"jsonCounter":3,"jsonSha256":"a","rocksSha256":"b"')
    assert differing({"a": A, "b": A, "c": A}, {"a": A, "b": B, "d": A}) == ["b", "c", "d"]


def test_times_within_a_second_of_each_other_tell_nothing() -> None:
    assert Later.of(100.0, 100.5) is Later.UNKNOWN
    assert Later.of(102.0, 100.5) is Later.JSON
    assert Later.of(100.0, 101.5) is Later.ROCKSDB
