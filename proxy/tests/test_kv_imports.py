"""An import is served as a whole or not at all, whatever kills the importer or the broker."""

from pathlib import Path

import pytest
import trio

from lanemq.storage import KvEngine
from lanemq.testkit.proxy.keys import Keys, keys_of, result
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import LoadedEntry, OpType, encode_key, encode_load

BUSY = ResponseCode.SYSTEM_BUSY


async def load(keys: Keys, *numbers: int) -> None:
    entries = [LoadedEntry(b"%d" % n, b"new", 3, 1, 1) for n in numbers]
    answer = await keys.ask(RequestCode.KV_WRITE, encode_load(entries), opType=OpType.LOAD)
    assert result(answer).done


async def all_reads(keys: Keys) -> list[Frame]:
    return [
        await keys.ask(RequestCode.KV_GET, key=encode_key(b"1")),
        await keys.ask(RequestCode.KV_MULTI_GET, b"\x91\xc4\x011"),
        await keys.ask(RequestCode.KV_SCAN),
        await keys.ask(RequestCode.KV_SCAN, snapshot="new"),
        await keys.watch(0),
        await keys.put(b"1", b""),
    ]


@pytest.mark.parametrize("engine", list(KvEngine))
@pytest.mark.parametrize("is_replayed", [False, True])
async def test_half_an_import_is_not_served_over_a_restart_either(
    tmp_path: Path, engine: KvEngine, is_replayed: bool
) -> None:
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        await keys.put(b"old", b"1")
        assert result(await keys.write(OpType.IMPORT)).done
        await load(keys, 1, 2)
        for answer in await all_reads(keys):
            assert answer.code == BUSY
            assert "begin it again" in (answer.remark or "")
    if is_replayed:  # of the log, as after a loss of kv/
        (tmp_path / "kv").rename(tmp_path / "kv.away")
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        with trio.fail_after(30):
            for answer in await all_reads(keys):
                assert answer.code == BUSY
            while True:
                again = await keys.write(OpType.IMPORT)
                if again.code != BUSY:
                    break
                await trio.sleep(0.02)  # its state is made again
        assert result(again).done
        await load(keys, 1, 2, 3)
        assert result(await keys.write(OpType.IMPORTED)).done
        status = await keys.status()
        assert status.entries == 3
        entry = await keys.get(b"3")
        assert entry is not None
        assert entry.version == 3
        assert await keys.get(b"old") is None
        assert result(await keys.put(b"old", b"2")).done


async def test_an_import_that_was_broken_off_is_discarded_by_a_clear(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        await keys.put(b"old", b"1")
        await keys.write(OpType.IMPORT)
        await load(keys, 1)
        assert result(await keys.write(OpType.CLEAR)).done
        assert await keys.get(b"1") is None
        assert (await keys.status()).entries == 0
