"""The connectors of the examples, killed at any point while their checkpoints move."""

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import cycle
from pathlib import Path

import pytest
import trio

from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk import ConsumeFrom, LanemqError, open_lite_pull_consumer
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import open_kv_store
from lanemq.testkit.proxy.kv_brokers import Brokers
from lanemq.testkit.servers import PATIENT_S

EXAMPLES = Path(__file__).parents[2] / "examples"
CHANGES = 240
KILLS = 4
TOPIC_OF = {"file_source.py": "FileSourceTopic", "table_source.py": "TableSourceTopic"}
# A machine that is busy for a few seconds costs no leader its place, and no send its time; and the
# connector is not done before it is killed, where this test is what waits.
PATIENT = {
    "checkpoint.save(": "__import__('time').sleep(0.05); checkpoint.save(",
    "ttl_s=15": "ttl_s=60",
    "open_kv_store(name_servers=NAME_SERVERS)": (
        "open_kv_store(name_servers=NAME_SERVERS, timeout_s=60)"
    ),
    '-source", name_servers=NAME_SERVERS)': (
        '-source", name_servers=NAME_SERVERS, send_timeout_s=60)'
    ),
}


def patient(name: str, folder: Path) -> Path:
    text = (EXAMPLES / name).read_text()
    for part, longer in PATIENT.items():
        assert text.count(part) == 1, part
        text = text.replace(part, longer)
    copy = folder / name
    copy.write_text(text)
    return copy


def make_lines(path: Path) -> list[bytes]:
    lines = [b"line %d" % number for number in range(CHANGES)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return lines


def make_changes(path: Path) -> list[bytes]:
    """Fill a table by the connector's own schema, and change it."""
    rng, expected = random.Random(5), list[bytes]()
    text = (EXAMPLES / "table_source.py").read_text()
    schema = text.split('SCHEMA = """')[1].split('"""')[0]
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(schema)
        stock: dict[str, int] = {}
        while len(expected) < CHANGES:
            item, pieces = f"item {rng.randrange(20)}", rng.randrange(100)
            kind = "delete" if item in stock and rng.random() < 0.3 else "update"
            if item not in stock:
                kind = "insert"
                database.execute("insert into stock values (?, ?)", (item, pieces))
            elif kind == "update":
                database.execute("update stock set pieces = ? where item = ?", (pieces, item))
            else:
                database.execute("delete from stock where item = ?", (item,))
                pieces = stock.pop(item)
            if kind != "delete":
                stock[item] = pieces
            change = {"kind": kind, "item": item, "pieces": pieces}
            expected.append(json.dumps(change).encode())
    return expected


async def sent_to(name_server: str, topic: str, count: int) -> list[bytes]:
    """Read a topic from its begin until it has so many messages, and nothing more comes."""
    bodies: list[bytes] = []
    async with open_lite_pull_consumer(
        "reader", name_servers=name_server, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await consumer.assign(await consumer.queues_of(topic))
        with trio.move_on_after(60) as scope:
            async for message in consumer:
                bodies.append(message.body)
                if len(bodies) >= count:
                    scope.deadline = trio.current_time() + 2
    return bodies


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"), [("file_source.py", make_lines), ("table_source.py", make_changes)]
)
async def test_a_connector_goes_on_where_it_was_over_kills_restarts_and_moves(
    tmp_path: Path, name: str, make: Callable[[Path], list[bytes]]
) -> None:
    """Its checkpoint moves from broker to broker while it works; brokers are killed in between."""
    rng, source, errors = random.Random(7), tmp_path / "source", tmp_path / "errors"
    expected = make(source)
    command = [sys.executable, str(patient(name, tmp_path))]
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json"
    )
    async with (
        open_nameserver(config) as name_server,
        open_admin(name_servers=name_server.address, timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        address, places = name_server.address, cycle("ba")
        brokers = Brokers(tmp_path, address, nursery)
        for broker in "ab":
            await brokers.start(broker)
        kind = name.removesuffix(".py").replace("_", "-")
        async with open_kv_store(name_servers=address, timeout_s=60) as store:
            await store.create(1, ["a"])

            async def position() -> bytes | None:
                entry = await store.get(f"checkpoint/{kind} {source}".encode())
                return None if entry is None else entry.value

            async def advanced(times: int) -> None:
                """Wait until the checkpoint has changed so often."""
                with trio.fail_after(180):
                    for _ in range(times):
                        before = await position()
                        while await position() == before:
                            assert process.poll() is None, errors.read_text()
                            await trio.sleep(0.01)

            for kill in range(KILLS):
                with errors.open("wb") as stderr:
                    process = await trio.lowlevel.open_process(
                        [*command, address, str(source)],
                        env={**os.environ, "HOME": str(tmp_path)},
                        stdout=subprocess.DEVNULL,
                        stderr=stderr,
                    )
                await advanced(rng.randint(2, 6))
                with suppress(LanemqError):
                    await admin.migrate_logical_queue("%KV%default", 0, next(places))
                await advanced(2)
                process.kill()
                await process.wait()
                if kill % 2:
                    await brokers.kill(rng.choice("ab"))
                await store.delete(f"leader/{kind} {source}".encode())
            middle = await position()
            done = await trio.run_process(
                [*command, address, str(source)],
                env={**os.environ, "HOME": str(tmp_path)},
                capture_stdout=True,
            )
            assert not done.stdout.startswith(b"0 "), "it was not killed in the middle"
            assert await position() != middle
        bodies = await sent_to(address, TOPIC_OF[name], len(expected))
        nursery.cancel_scope.cancel()
    found, wanted = Counter(bodies), Counter(expected)
    assert not wanted - found, "something was left out"
    repeated = (found - wanted).total()
    assert repeated <= 2 * KILLS  # for each kill the one under way, and one more by a lost answer
