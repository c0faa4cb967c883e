"""``lanemq kv``, at a broker of lanemq."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import trio
from click.testing import CliRunner, Result

from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.sdk.kv import KeyValueStore
from lanemq.sdk.kv.cli import kv
from lanemq.testing import open_test_server

PAGE = Path(__file__).parents[2] / "docs" / "kv.md"
Run = Callable[..., Result]


@pytest.fixture
def run() -> Iterator[Run]:
    with open_test_server() as server:

        def invoke(*arguments: str, status: int = 0, stdin: bytes = b"") -> Result:
            named = ["-n", server.name_servers]
            words = arguments[0].split()
            result = CliRunner().invoke(kv, [*words, *named, *arguments[1:]], input=stdin)
            assert result.exit_code == status, (result.output, result.exception)
            return result

        yield invoke


def test_a_namespace_is_created_once_and_again_does_no_harm(run: Run) -> None:
    assert run("create").stdout == "namespace default is there\n"
    run("put", "k", "v")
    run("create", "--broker", "test-broker")
    assert run("get", "k").stdout == "v\n"
    run("create", "--namespace", "jobs", "--broker", "test-broker")
    assert json.loads(run("status", "--json", "--namespace", "jobs").stdout)["entries"] == 0


def test_put_get_and_delete(run: Run) -> None:
    assert run("put", "k", "v 1").stdout == "version 1\n"
    assert run("put", "k", "-", stdin=b"\x00\xff").stdout == "version 2\n"
    assert run("get", "k").stdout_bytes == b"\x00\xff\n"
    assert run("get", "--raw", "k").stdout_bytes == b"\x00\xff"
    assert run("get", "--local", "k").stdout_bytes == b"\x00\xff\n"
    assert run("delete", "k").stdout == "deleted version 2\n"
    assert "there is no key 'k'" in run("get", "k", status=1).stderr
    assert "there is no key 'k'" in run("delete", "k", status=1).stderr


def test_bytes_in_other_forms(run: Run, tmp_path: Path) -> None:
    run("put", "--hex", "00ff", "0a0b")
    assert run("get", "--hex", "00ff").stdout == "0a0b\n"
    key = base64.b64encode(b"\x00\xff").decode()
    assert run("get", "--base64", key).stdout == "Cgs=\n"
    found = json.loads(run("get", "--hex", "--json", "00ff").stdout)
    assert (found["key"], found["value"], found["version"]) == (key, "Cgs=", 1)
    (tmp_path / "value").write_bytes(b"\r\n")
    run("put", "f", f"@{tmp_path / 'value'}")
    assert run("get", "--raw", "f").stdout_bytes == b"\r\n"
    assert "not hexadecimal" in run("get", "--hex", "xy", status=2).stderr
    assert "not base64" in run("get", "--base64", "x", status=2).stderr
    assert "two ways" in run("get", "--base64", "--hex", "aa", status=2).stderr


def test_compare_and_set(run: Run) -> None:
    assert run("cas", "k", "1", "--version", "0").stdout == "version 1\n"
    refused = run("cas", "k", "2", "--version", "0", status=1)
    assert "it has version 1" in refused.stderr
    assert run("cas", "k", "2", "--expected", "1").stdout == "version 2\n"
    assert run("cas", "k", "--delete", "--version", "2").stdout == "deleted version 2\n"
    assert "does not exist" in run("cas", "k", "x", "--version", "2", status=1).stderr
    assert "give --version or --expected" in run("cas", "k", "x", status=2).stderr
    assert "give a VALUE, or --delete" in run("cas", "k", "--version", "1", status=2).stderr


def test_scan_watch_status_and_hash(run: Run) -> None:
    for number in range(5):
        run("put", f"p/{number}", f"v{number}")
    run("put", "q", "x", "--ttl", "1000")
    run("delete", "p/4")
    assert run("scan", "p/", "--limit", "2").stdout == "p/0 v0\np/1 v1\n"
    assert run("scan", "p/", "--keys-only").stdout == "p/0\np/1\np/2\np/3\n"
    lines = run("scan", "--json").stdout.splitlines()
    assert [base64.b64decode(json.loads(line)["key"]) for line in lines][-1] == b"q"
    watched = run("watch", "p/", "--position", "3", "--count", "3").stdout
    assert watched == "3 put p/3 v3\n4 put p/4 v4\n6 delete p/4\n"
    run("put", "p/3x", "other")
    run("put", "p/3", "w")
    of_one = run("watch", "--key", "p/3", "--previous", "--position", "3", "--count", "2").stdout
    assert of_one == "3 put p/3 v3\n8 put p/3 w v3\n"
    again = run("watch", "--key", "p/3", "--previous", "--position", "4", "--count", "1", "--json")
    before = json.loads(again.stdout)["previous"]
    assert (base64.b64decode(before["value"]), before["version"]) == (b"v3", 1)
    assert "not of both" in run("watch", "p/", "--key", "p/3", status=2).stderr
    assert run("scan", "--limit", "3000", "--keys-only").stdout.count("\n") == 6
    run("delete", "p/3x")
    run("put", "p/3", "v3")
    status = json.loads(run("status", "--json").stdout)
    assert (status["entries"], status["position"], status["engine"]) == (5, 11, "memory")
    assert "entries:      5\n" in run("status").stdout
    assert run("hash").stdout == f"{status['state_hash']} 11\n"


def test_leases_are_granted_listed_and_end(run: Run) -> None:
    number = run("lease grant", "--ttl", "600").stdout.strip()
    assert run("lease grant", "--ttl", "1000.5", "--id", "7").stdout == "7\n"
    assert "already" in run("lease grant", "--ttl", "5", "--id", "7", status=2).stderr
    run("put", "a b", "v", "--lease", "7")
    run("cas", "c", "v", "--version", "0", "--lease", "7")
    run("put", "d", "v", "--lease", number)
    assert "lease" in run("put", "e", "v", "--lease", "8", status=1).stderr
    run("put", "e", "v", "--lease", "7", "--ttl", "5", status=2)
    first, *keys = run("lease ttl", "7").stdout.splitlines()
    assert re.fullmatch(r"lease 7: (1000|9\d\d)(\.\d+)? s left of 1000\.5 s, 2 keys", first)
    assert keys == ["a\\x20b", "c"]
    found = json.loads(run("lease ttl", "7", "--json").stdout)
    assert (found["lease"], found["ttl_ms"], found["count"]) == (7, 1_000_500, 2)
    assert [base64.b64decode(key) for key in found["keys"]] == [b"a b", b"c"]
    listed = [json.loads(line) for line in run("lease list", "--json").stdout.splitlines()]
    assert sorted(one["lease"] for one in listed) == sorted([7, int(number)])
    assert len(run("lease list", "--of-any").stdout.splitlines()) == 2
    assert run("lease keep-alive", "7").stdout == "lease 7 is kept alive\n"
    assert json.loads(run("status", "--json").stdout)["leases"] == 2
    assert json.loads(run("get", "c", "--json").stdout)["lease"] == 7
    assert run("lease revoke", "7").stdout == "lease 7 is revoked\n"
    for command in ("keep-alive", "revoke", "ttl"):
        assert "there is no lease 7" in run(f"lease {command}", "7", status=1).stderr
    assert run("scan", "--keys-only").stdout == "d\n"


def test_a_status_tells_of_history_watchers_and_lag(run: Run) -> None:
    for number in range(3):
        run("put", "k", str(number))
    run("compact", "2")
    status = json.loads(run("status", "--json").stdout)
    expected = {"position": 4, "end": 4, "lag": 0, "changes_from": 2, "changes": 1, "watchers": 0}
    assert {name: status[name] for name in expected} == expected
    assert "lag:          0\n" in run("status").stdout


def test_a_bench_tells_rates_and_leaves_nothing_behind(run: Run) -> None:
    run("put", "other", "v")
    lines = run("bench", "--clients", "3", "--seconds", "1").stdout.splitlines()
    times = r"half within [\d.]+ ms, 99 of 100 within [\d.]+ ms"
    matches = [re.fullmatch(rf"(\w+): [\d,]+/s, {times}, 3 clients", line) for line in lines]
    assert [one and one[1] for one in matches] == ["put", "cas", "get"]
    options = [
        "--seconds",
        "1",
        "--operation",
        "get",
        "--value-bytes",
        "5000",
        "--prefix",
        "x y/",
    ]
    (line,) = run("bench", *options, "--json").stdout.splitlines()
    found = json.loads(line)
    assert (found["operation"], found["clients"], found["seconds"]) == ("get", 1, 1)
    assert found["count"] > 0
    assert found["rate"] == pytest.approx(found["count"], abs=0.1)
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert run("scan", "--keys-only").stdout == "other\n"
    for wrong in (["--clients", "0"], ["--seconds", "0"], ["--operation", "dance"]):
        run("bench", *wrong, status=2)


def test_a_bench_gives_no_write_up_that_would_be_done_in_the_next_measurement(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, begun, ended = KeyValueStore.put, list[bytes](), list[bytes]()

    async def put_slowly(store: KeyValueStore, key: bytes, value: bytes) -> int:
        begun.append(key)
        await trio.sleep(0.05)
        version = await put(store, key, value)
        ended.append(key)
        return version

    monkeypatch.setattr(KeyValueStore, "put", put_slowly)
    lines = run("bench", "--operation", "put", "--operation", "cas", "--seconds", "0.02").stdout
    assert lines.startswith("put: 0/s, no answer, 1 client\ncas: ")
    assert begun == ended


def test_leases_are_in_no_export(run: Run, tmp_path: Path) -> None:
    run("put", "stays", "v")
    run("lease grant", "--ttl", "600", "--id", "7")
    run("put", "goes", "v", "--lease", "7")
    path = str(tmp_path / "file")
    run("export", path)
    run("import", path, "--replace")
    assert run("scan", "--keys-only").stdout == "stays\n"


def test_a_command_runs_with_a_lock(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fencing"
    code = f"import os; open({str(path)!r}, 'w').write(os.environ['LANEMQ_FENCING'])"
    run("put", "other", "x")
    run("lock", "l", "--ttl", "60", "--", sys.executable, "-c", code)
    assert path.read_text() == "3"  # a put and the grant of its lease were before
    failing = [sys.executable, "-c", "raise SystemExit(7)"]
    run("lock", "l", "--", *failing, status=7)
    run("put", "l", "somebody")
    assert "was not free within" in run("lock", "l", "--wait", "0.2", "true", status=1).stderr
    assert "was not free within" in run("lock", "l", "--wait", "0", "true", status=1).stderr
    run("lock", "m", "--wait", "0", "true")


def test_a_command_runs_while_its_leader_leads_and_others_see_who_it_is(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "seen"
    assert run("observe", "job", "--count", "1").stdout == "0\n"
    code = f"import os; open({str(path)!r}, 'w').write(os.environ['LANEMQ_FENCING'])"
    run("elect", "job", "--owner", "host-1", "--", sys.executable, "-c", code)
    put, delete = run(
        "watch", "--key", "leader/job", "--position", "0", "--count", "2"
    ).stdout.splitlines()
    at, kind, key, value = put.split(" ", 3)
    assert (kind, key, value.split("#")[0]) == ("put", "leader/job", "host-1")
    assert path.read_text() == str(int(at) + 1)
    assert delete.split()[1:] == ["delete", "leader/job"]
    run("put", "leader/job", "host-2#x")
    assert run("observe", "job", "--count", "1").stdout.split()[1] == "host-2"
    found = json.loads(run("observe", "job", "--count", "1", "--json").stdout)
    assert base64.b64decode(found["owner"]) == b"host-2"
    assert "was not free" in run("elect", "job", "--wait", "0", "--", "true", status=1).stderr


def test_a_server_that_is_not_there_is_no_lock_that_is_not_free() -> None:
    arguments = ["lock", "-n", "127.0.0.1:1", "l", "--wait", "0", "true"]
    result = CliRunner().invoke(kv, arguments)
    assert result.exit_code == 2
    assert "127.0.0.1:1" in result.stderr
    assert "not free" not in result.stderr


SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
TAKES_SIGNALS = """
import signal, sys
def end(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    open(sys.argv[1]).read()
    sys.exit(7)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, end)
print("runs", flush=True)
while True:
    signal.pause()
"""
"""A command that ends when it got a signal, and may: when somebody has opened a pipe."""


def locked(name_servers: str, *command: str) -> subprocess.Popen[str]:
    lock = [sys.executable, "-m", "lanemq.proxy.cli", "kv", "lock", "-n", name_servers, "l"]
    whole = [*lock, "--", sys.executable, "-c", *command]
    return subprocess.Popen(whole, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def _signals_arrive() -> None:
    """A shell starts what runs behind its back, or under nohup, deaf to some of them."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.mark.usefixtures("_signals_arrive")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_goes_to_the_command_and_the_lock_is_held_until_it_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    may_end = tmp_path / "may end"
    os.mkfifo(may_end)
    with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
        locked(server.name_servers, TAKES_SIGNALS, str(may_end)) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(number)
        assert process.stdout.readline() == f"got {number.name}\n"
        assert store.get(b"l") is not None
        may_end.write_text("")
        assert process.wait() == 7
        assert store.get(b"l") is None


def test_a_command_that_a_signal_ends_ends_the_lock_as_shells_say_it() -> None:
    pause = "import signal; print('runs', flush=True); signal.pause()"
    with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
        locked(server.name_servers, pause) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
        assert store.get(b"l") is None


def test_an_export_is_imported_with_versions_and_times(run: Run, tmp_path: Path) -> None:
    for number in range(1500):
        if number % 500 == 0:
            run("put", f"k{number}", "old")
    run("put", "k0", "new")
    file = str(tmp_path / "snapshot")
    assert "3 entries at position 4, checksum " in run("export", file).stdout
    assert "is there already" in run("export", file, status=2).stderr
    run("export", "--force", file)
    before = [json.loads(line) for line in run("scan", "--json").stdout.splitlines()]
    assert "is not empty" in run("import", file, status=2).stderr
    run("put", "more", "x")
    assert "3 entries imported" in run("import", "--replace", file).stdout
    run("import", "--namespace", "copy", file)
    for namespace in ("default", "copy"):
        lines = run("scan", "--json", "--namespace", namespace).stdout.splitlines()
        after = [json.loads(line) for line in lines]
        for one in (*before, *after):
            one.pop("modified", None)
            one.pop("revision", None)
        assert after == before


@pytest.mark.parametrize("damage", ["cut", "flip", "later", "rubbish", "longer"])
def test_a_damaged_snapshot_changes_nothing(run: Run, tmp_path: Path, damage: str) -> None:
    run("put", "k", "v")
    file = tmp_path / "snapshot"
    run("export", str(file))
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[-5:]
    elif damage == "flip":
        data[len(data) - 60] ^= 1
    elif damage == "later":
        data[7] = 9
    elif damage == "rubbish":
        data[:] = b"hello"
    else:
        data += b"x"
    file.write_bytes(data)
    before = run("hash").stdout
    result = run("import", "--replace", str(file), status=2)
    said = {"later": "a later lanemq", "rubbish": "cut off", "longer": "damaged"}
    assert said.get(damage, "") in result.stderr
    assert run("hash").stdout == before


def test_what_cannot_be_done_is_one_line(run: Run) -> None:
    said = run("get", "k", status=2).stderr
    assert "there is no namespace 'default' of keys at broker test-broker. " in said
    assert "`lanemq kv create --namespace default --broker NAME`" in said
    assert "letters, digits" in run("get", "--namespace", "a b", "k", status=2).stderr
    result = CliRunner().invoke(kv, ["get", "k"], env={"NAMESRV_ADDR": ""})
    assert (result.exit_code, "no name server" in result.stderr) == (2, True)
    nobody = ["get", "-n", "127.0.0.1:1", "--timeout", "0.2", "k"]
    result = CliRunner().invoke(kv, nobody)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_the_page_has_every_command_and_its_options_exist() -> None:
    text = PAGE.read_text()
    for name, command in kv.commands.items():
        assert f"lanemq kv {name} " in text or f"lanemq kv {name}\n" in text, name
        assert isinstance(command, click.Command)
        assert command.help


def test_a_transaction_from_lines(run: Run, tmp_path: Path) -> None:
    run("put", "seat 7", "alice")
    lines = b"""
    # the seat moves
    if value "seat 7" = alice
    if missing "seat 8"
    then put "seat 8" alice
    then delete "seat 7"
    then get "seat 8"
    else get "seat 7"
    else get "seat 8"
    """
    done = run("txn", stdin=lines)
    assert done.stdout.splitlines() == [
        "succeeded",
        "put seat\\x208 version 1",
        "delete seat\\x207 version 1",
        "get seat\\x208 alice",
    ]
    (tmp_path / "lines").write_bytes(lines)
    again = run("txn", str(tmp_path / "lines"), status=1)
    assert again.stdout.splitlines() == [
        "not succeeded",
        "get seat\\x207",
        "get seat\\x208 alice",
    ]
    assert "there is no key b'seat 7'" in again.stderr
    found = json.loads(run("txn", "--json", stdin=lines, status=1).stdout)
    assert found["succeeded"] is False
    assert found["results"][1]["entry"]["value"] == base64.b64encode(b"alice").decode()
    for line in (b"if version k == 1", b"if version k = x", b"then jump k", b"if 'k", b"put k v"):
        assert "line 1" in run("txn", stdin=line, status=2).stderr


def test_a_transaction_from_lines_with_leases(run: Run) -> None:
    run("lease grant", "--ttl", "600", "--id", "7")
    lines = b"if lease k = 0\nthen put k v lease 7\nelse get k\n"
    assert run("txn", stdin=lines).stdout.startswith("succeeded\n")
    assert run("lease ttl", "7").stdout.splitlines()[1:] == ["k"]
    assert run("txn", stdin=lines, status=1).stdout.splitlines() == ["not succeeded", "get k v"]
    for under in (b"7", b"lease", b"lease 0", b"lease x", b"lease 9007199254740992", b"lease 7 8"):
        assert "line 1" in run("txn", stdin=b"then put k v " + under, status=2).stderr
    run("txn", stdin=b"then put k v lease 8", status=1)


def test_ranges_the_past_and_a_compaction(run: Run) -> None:
    for name in "abcd":
        run("put", name, name.upper())
    assert run("range", "b", "d").stdout == "b B\nc C\n"
    assert run("range", "--reverse", "--limit", "2", "--keys-only").stdout == "d\nc\n"
    assert run("range", "--count").stdout == "4\n"
    revision = json.loads(run("status", "--json").stdout)["position"]
    run("delete", "b")
    assert run("range", "b", "c", "--revision", str(revision)).stdout == "b B\n"
    assert run("get", "b", "--revision", str(revision)).stdout == "B\n"
    assert run("get", "bb", "--revision", str(revision), status=1).stderr.strip() == (
        f"there is no key 'bb' in namespace default at revision {revision}"
    )
    assert run("get", "a", "--revision", "0", status=1).stdout == ""
    assert "--local or --revision" in run("get", "a", "--local", "--revision", "1", status=2).stderr
    assert json.loads(run("range", "--count", "--json").stdout) == {"count": 3}
    assert "begins at revision" in run("compact", str(revision + 1)).stdout
    assert "history begins" in run("range", "--revision", str(revision), status=2).stderr
