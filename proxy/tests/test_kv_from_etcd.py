"""Keys of etcd that are imported, and the page that says which call becomes which."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.sdk.kv import KeyValueStore
from lanemq.sdk.kv.cli import kv
from lanemq.testing import TestServer, open_test_server

PAGE = Path(__file__).parents[2] / "docs" / "kv-migration.md"
PRINTED = (  # by etcdctl 3.5.21, after puts of text, of nothing, of bytes, and of one with a lease
    '{"header":{"cluster_id":324952591200643719,"member_id":3319814642761637952,"revision":7,'
    '"raft_term":2},"kvs":[{"key":"L2FwcC9h","create_revision":2,"mod_revision":3,"version":2,'
    '"value":"Mg=="},{"key":"L2FwcC9i","create_revision":4,"mod_revision":4,"version":1},'
    '{"key":"L2FwcC9sb2Nr","create_revision":6,"mod_revision":6,"version":1,"value":"bWU=",'
    '"lease":2324035663657262089},{"key":"Ymlu","create_revision":5,"mod_revision":5,"version":1,'
    '"value":"/wA="},{"key":"w6k=","create_revision":7,"mod_revision":7,"version":1,'
    '"value":"w7w="}],"count":5}\n'
)
Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[TestServer]:
    with open_test_server() as server:
        yield server


@pytest.fixture
def run(server: TestServer, tmp_path: Path) -> Run:
    def run(text: str, *options: str, status: int = 0) -> Result:
        (tmp_path / "keys.json").write_text(text)
        command = ["import", "-n", server.name_servers, "--from", "etcd", *options]
        result = CliRunner().invoke(kv, [*command, str(tmp_path / "keys.json")])
        assert result.exit_code == status, result.output
        return result

    return run


def entries(server: TestServer) -> dict[bytes, tuple[bytes, int]]:
    with open_kv_store(name_servers=server.name_servers) as store:
        page = store.prefix()
        return {entry.key: (entry.value, entry.version) for entry in page.entries}


def test_all_keys_come_along_with_their_versions(run: Run, server: TestServer) -> None:
    assert run(PRINTED, "--leased", "keep").stdout == "5 entries imported, left out 0\n"
    kept = {
        b"/app/a": (b"2", 2),
        b"/app/b": (b"", 1),
        b"/app/lock": (b"me", 1),
        b"bin": (b"\xff\x00", 1),
        "é".encode(): ("ü".encode(), 1),
    }
    assert entries(server) == kept
    with open_kv_store(name_servers=server.name_servers) as store:
        assert store.compare_and_set(b"/app/a", b"3", version=2).done
    assert run(PRINTED, "--leased", "skip", "--replace").stdout == (
        "4 entries imported, left out 1\n"
    )
    del kept[b"/app/lock"]
    assert entries(server) == kept


def printed(**changes: Any) -> str:  # noqa: ANN401 - whatever stands in JSON
    return json.dumps({**json.loads(PRINTED), **changes})


def one_key(**changes: Any) -> str:  # noqa: ANN401 - the same
    return printed(kvs=[{"key": "YQ==", "version": 1, "value": "YQ==", **changes}], count=1)


BAD = {
    "a snapshot": ("lanekvs\x01", "is not what etcdctl"),
    "nothing": ("", "is not what etcdctl"),
    "other JSON": ('{"a": 1}', "is not what etcdctl"),
    "half a file": (PRINTED[:-9], "is not what etcdctl"),
    "no base64": (one_key(key="?"), "is not what etcdctl"),
    "a key without a version": (printed(kvs=[{"key": "YQ=="}], count=1), "is not what etcdctl"),
    "no keys": (printed(kvs=[], count=0), "has no keys"),
    "a part": (printed(more=True), "has 5 of 5 keys: get all of them"),
    "a count alone": (printed(kvs=[]), "has 0 of 5 keys"),
    "a lease": (PRINTED, "1 keys belong to a lease, the first is /app/lock"),
    "an empty key": (one_key(key=""), "has 0 bytes"),
    "a long key": (one_key(key=base64.b64encode(bytes(4097)).decode()), "has 4097 bytes"),
    "a version of none": (one_key(version=0), "the version 0"),
    "a key twice": (
        printed(kvs=[{"key": "YQ==", "version": 1}] * 2, count=2),
        "has the key a twice",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_taken_over_changes_nothing(run: Run, server: TestServer, name: str) -> None:
    text, told = BAD[name]
    with open_kv_store(name_servers=server.name_servers) as store:
        store.put(b"old", b"value")
    assert told in run(text, "--replace", status=2).stderr
    assert entries(server) == {b"old": (b"value", 1)}


def test_a_long_value_is_refused(run: Run) -> None:
    value = base64.b64encode(bytes((4 << 20) + 1)).decode()
    assert "the value of a has 4194305 bytes" in run(one_key(value=value), status=2).stderr


def test_a_file_of_keys_alone_is_told_of(run: Run) -> None:
    kvs = [{"key": "YQ==", "version": 1}]
    assert "--keys-only" in run(printed(kvs=kvs, count=1)).stderr


def test_leases_are_of_etcd_alone(server: TestServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    command = ["import", "-n", server.name_servers, "--leased", "keep", str(tmp_path / "file")]
    result = CliRunner().invoke(kv, command)
    assert result.exit_code == 2
    assert "--from etcd" in result.stderr


def test_the_tree_of_zookeeper_is_copied_as_the_page_says(server: TestServer) -> None:
    """``kazoo``'s two calls stand in for a server, which this machine has not."""
    tree = {"/": b"", "/app": b"1", "/app/a": b"2", "/app/a/b": b"", "/app/lock": b"me"}

    def get(path: str) -> tuple[bytes, SimpleNamespace]:
        return tree[path], SimpleNamespace(ephemeralOwner=7 if path == "/app/lock" else 0)

    def get_children(path: str) -> list[str]:
        begin = path.rstrip("/") + "/"
        names = {name.removeprefix(begin) for name in tree if name.startswith(begin)}
        return sorted(name for name in names if name and "/" not in name)

    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    zookeeper = SimpleNamespace(get=get, get_children=get_children)
    with open_kv_store(name_servers=server.name_servers) as store:
        names["copy"](zookeeper, store)
    assert entries(server) == {b"/app": (b"1", 1), b"/app/a": (b"2", 1)}


def test_every_call_that_the_page_names_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    called = set(re.findall(r"store\.([a-z_]+)", text))
    assert len(called) >= 10
    assert [name for name in sorted(called) if not hasattr(KeyValueStore, name)] == []
    commands = set(re.findall(r"lanemq kv ([a-z]+)", text))
    assert commands <= set(kv.commands)


def test_what_etcd_does_is_done_by_the_calls_of_the_page() -> None:
    """One line of each kind, as the table has it."""

    async def program(name_servers: str) -> None:
        from lanemq.sdk.kv import Action, Step, open_kv_store

        async with open_kv_store(name_servers=name_servers) as store:
            assert await store.put(b"/app/key", b"1") == 1
            assert not (await store.compare_and_set(b"/app/key", b"2", version=0)).done
            assert (await store.compare_and_set(b"/app/key", b"2", expected=b"1")).done
            done = await store.batch(
                [
                    Step(b"/app/key", Action.CHECK, if_version=2),
                    Step(b"/app/other", Action.PUT, b"x", if_version=0),
                ]
            )
            assert done.done
            page = await store.prefix(b"/app/", limit=1, keys_only=True, snapshot="new")
            await store.put(b"/app/z", b"later")
            rest = await store.prefix(b"/app/", cursor=page.cursor, snapshot=page.snapshot)
            assert [entry.key for entry in (*page.entries, *rest.entries)] == [
                b"/app/key",
                b"/app/other",
            ]
            async with store.lock(b"name") as lock:
                held = Step(b"/app/done", Action.PUT, b"1")
                assert (await store.batch([lock.check, held])).done

    with open_test_server() as server:
        trio.run(program, server.name_servers)
