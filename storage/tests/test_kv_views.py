"""A state as it was, read from the database while it goes on."""

import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.kv._outcomes import LogRecord
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines import _rocks
from lanemq.storage.kv.engines._engine import RowsView, SnapshotGone, Unfinished
from lanemq.storage.kv.engines._rocks import RocksEngine
from lanemq.storage.kv.engines._rows import ENTRY, after_prefix
from lanemq.wire.kv import Action, OpType, Step, encode_steps

KEYS = [b"a", b"a/1", b"b", b"c", b"\xff\xff"]

steps = st.builds(
    Step,
    key=st.sampled_from(KEYS),
    action=st.sampled_from([Action.PUT, Action.PUT, Action.DELETE]),
    value=st.sampled_from([b"", b"one", b"two"]),
    ttl_ms=st.sampled_from([0, 0, 20]),
)
operations = st.one_of(
    *[steps.map(lambda step: (OpType.BATCH, encode_steps([step])))] * 6,
    st.just((OpType.TICK, b"")),
    st.just((OpType.CLEAR, b"")),
)
histories = st.lists(operations, max_size=12)


def entries(view: RowsView) -> dict[bytes, bytes]:
    return dict(view.items(ENTRY, after_prefix(ENTRY)))


@pytest.mark.slow
@given(before=histories, since=histories, during=histories, writes_together=st.booleans())
@settings(max_examples=60)
def test_rows_of_a_moment_are_those_whatever_is_written_before_and_amid_a_read(
    before: list[tuple[str, bytes]],
    since: list[tuple[str, bytes]],
    during: list[tuple[str, bytes]],
    writes_together: bool,
) -> None:
    numbers = count()
    with tempfile.TemporaryDirectory() as directory:
        engine = RocksEngine(Path(directory))
        state = State(engine.table("default"))

        def apply(operation: tuple[str, bytes]) -> None:
            number = next(numbers)
            state.apply(LogRecord(number, 1_000_000 + 9 * number, *operation))
            if not writes_together:
                state.write()

        for operation in before:
            apply(operation)
        state.write()
        expected = entries(state.table)
        view = state.freeze().table
        assert entries(view) == expected
        for operation in since:
            apply(operation)
        state.write()
        try:
            assert entries(view) == expected
            rest, found = iter(during), {}
            for key, row in view.some(ENTRY, after_prefix(ENTRY)):
                found[key] = row
                for operation in rest:
                    apply(operation)
                    state.write()
                    break
            assert found == expected
            assert entries(view) == expected
        except (SnapshotGone, Unfinished):
            assert any(op_type == OpType.CLEAR for op_type, _ in [*since, *during])
        finally:
            del view
            engine.close()


async def test_a_row_that_is_written_amid_a_read_of_several_ranges_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges behind many deleted rows are looked at one after another, each as it is then."""
    monkeypatch.setattr(_rocks, "SKIPPED_MAX", 10)
    engine = RocksEngine(tmp_path / "rocksdb")
    table = engine.table("default")
    keys = [ENTRY + b"%04d" % number for number in range(100)]
    kept = [keys[0], keys[50], keys[99]]
    table.write([], dict.fromkeys(keys, b"old"))
    table.write([], dict.fromkeys([key for key in keys if key not in kept], None))
    view = table.snapshot()
    found = []
    for key, row in view.some(ENTRY, after_prefix(ENTRY)):
        found.append((key, row))
        table.write([], dict.fromkeys(kept, b"new"))
    assert found == [(key, b"old") for key in kept]
    assert table.get(kept[-1]) == b"new"
    del view
    engine.close()
