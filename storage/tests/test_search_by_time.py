"""Offsets by store time, and store times by offset."""

from bisect import bisect_left, bisect_right

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.storage import Boundary, NewMessage, StoreConfig, open_store
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import HOST, MakeMessage, OpenSmall


def expected(times: list[int], wanted: int, boundary: Boundary) -> int:
    if boundary is Boundary.LOWER:
        return bisect_left(times, wanted)
    if boundary is Boundary.UPPER:
        return max(bisect_right(times, wanted) - 1, 0)
    behind = bisect_left(times, wanted)
    near = range(max(behind - 1, 0), min(behind + 1, len(times)))
    return min(near, key=lambda offset: abs(times[offset] - wanted))


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.sampled_from((0, 0, 1, 2, 5)), min_size=1, max_size=30),
    boundary=st.sampled_from(Boundary),
)
def test_every_time_finds_the_message_its_boundary_names(
    gaps: list[int], boundary: Boundary
) -> None:
    async def check() -> None:
        now_ms, times = 1_000_000, []
        config = StoreConfig(
            root="/store",  # type: ignore[arg-type]  # a text does, too
            commit_log_file_bytes=1000,
            consume_queue_file_bytes=100,
            max_hash_slots=3,
            max_index_entries=10,
            tail_cache_bytes=100,
        )
        async with open_store(config, files=SimulatedFiles(), clock_ms=lambda: now_ms) as store:
            for gap in gaps:
                now_ms += gap
                times.append(now_ms)
                store.put(
                    NewMessage(
                        topic="T",
                        queue_id=0,
                        body=b"",
                        properties=b"",
                        born_timestamp_ms=0,
                        born_host=HOST,
                        store_host=HOST,
                    )
                )
            store.commit()
            for wanted in range(times[0] - 3, now_ms + 4):
                offset = store.offset_by_time("T", 0, wanted, boundary=boundary)
                assert offset == expected(times, wanted, boundary), wanted
            assert store.earliest_time_ms("T", 0) == times[0]
            found = [store.store_time_ms("T", 0, offset) for offset in range(len(times) + 1)]
            assert found == [*times, -1]

    trio.run(check, clock=MockClock(autojump_threshold=0))


async def test_where_nothing_is_a_search_gives_the_end(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        assert store.offset_by_time("none", 0, 5) == 0
        assert store.earliest_time_ms("none", 0) == -1
        assert store.store_time_ms("none", 0, 0) == -1
        assert store.units("none", 0, 0, 5) == []
        store.put(make_message())
        assert store.offset_by_time("T", 0, 5) == 0
