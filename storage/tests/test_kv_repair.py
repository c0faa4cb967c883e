"""Damaged files of keys: ``store verify-kv`` and ``store repair`` read every block, and fix."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage import NewMessage, StoreConfig, open_store
from lanemq.storage.cli import store as store_command
from lanemq.storage.kv import operation_properties
from lanemq.testkit.storage.stores import HOST
from lanemq.wire.kv import Action, OpType, Step, encode_steps, kv_topic

KEYS = 600


def value(number: int) -> bytes:
    return b"".join(b"%016x" % hash((number, part)) for part in range(12))


async def prepared(root: Path) -> str:
    async with open_store(StoreConfig(root=root)) as store:
        assert store.kv is not None
        for namespace in ("a", "b"):
            await store.kv.make(namespace)
            steps = [Step(b"%05d" % n, Action.PUT, value(n)) for n in range(KEYS)]
            store.put(
                NewMessage(
                    topic=kv_topic(namespace),
                    queue_id=0,
                    body=encode_steps(steps),
                    properties=operation_properties(OpType.BATCH),
                    born_timestamp_ms=1,
                    born_host=HOST,
                    store_host=HOST,
                )
            )
        store.commit()
        await store.kv.catch_up()
        await store.kv.flush()
        return store.kv.states["a"].hash


def flip_a_block(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_the_changes(path: Path) -> None:
    """The first block has the rows of changes, which are no part of the hash."""
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def tables(root: Path) -> list[Path]:
    found = (root / "kv" / "rocksdb").glob("*.sst")
    return [path for path in found if b"kv.a" in path.read_bytes()]


@pytest.mark.parametrize("ruin", [flip_a_block, flip_the_changes, Path.unlink])
async def test_every_block_is_read_and_what_is_damaged_is_made_again(
    tmp_path: Path, ruin: Callable[[Path], None]
) -> None:
    expected = await prepared(tmp_path)
    run = CliRunner()
    sound = run.invoke(store_command, ["verify-kv", str(tmp_path)])
    assert sound.exit_code == 0, sound.output
    for path in tables(tmp_path):
        ruin(path)
    found = run.invoke(store_command, ["verify-kv", str(tmp_path)])
    assert found.exit_code == 1, found.output
    assert "lanemq store repair" in found.output
    dry = run.invoke(store_command, ["repair", "--dry-run", str(tmp_path)])
    assert "keys" in dry.output
    assert run.invoke(store_command, ["verify-kv", str(tmp_path)]).output == found.output
    repaired = run.invoke(store_command, ["repair", str(tmp_path)])
    assert repaired.exit_code == 0, repaired.output
    again = run.invoke(store_command, ["verify-kv", str(tmp_path)])
    assert again.exit_code == 0, again.output
    async with open_store(StoreConfig(root=tmp_path)) as store:
        assert store.kv is not None
        await store.kv.make("a")
        await store.kv.catch_up()
        assert store.kv.states["a"].hash == expected
        assert store.kv.states["b"].meta.entries == KEYS
