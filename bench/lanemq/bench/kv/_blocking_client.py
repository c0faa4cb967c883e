"""``go/kv.go`` with blocking clients of Python: the same commands, the same JSON lines.

lanemq is asked through ``lanemq.sdk.blocking.kv``, etcd through etcd3. One client each, shared by
threads that each wait for an answer before they ask again. Run as
``python -m lanemq.bench.kv._blocking_client``, with etcd3 on the path.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final, Protocol

from lanemq.sdk.blocking.kv import KeyValueStore, open_kv_store

FILLERS: Final = 16


class Worker(Protocol):
    """One thread's operations."""

    def put(self, key: str, value: bytes) -> None: ...
    def get(self, key: str) -> None: ...
    def cas(self, value: bytes) -> None:
        """Replace the worker's own key, if it is as the worker left it."""


class LanemqWorker:
    """Asks lanemq."""

    def __init__(self, store: KeyValueStore, number: int) -> None:
        self._store, self._own, self._version = store, b"own/%d" % number, 0
        store.delete(self._own)

    def put(self, key: str, value: bytes) -> None:
        self._store.put(key.encode(), value)

    def get(self, key: str) -> None:
        if self._store.get(key.encode()) is None:
            raise LookupError(f"lanemq has no key {key}")

    def cas(self, value: bytes) -> None:
        result = self._store.compare_and_set(self._own, value, version=self._version)
        if not result.done:
            raise LookupError(f"lanemq: {self._own!r} is not at version {self._version}")
        self._version = result.version


class EtcdWorker:
    """Asks etcd."""

    def __init__(self, client: Any, number: int) -> None:  # noqa: ANN401 - etcd3 has no types
        self._client, self._own, self._revision = client, f"own/{number}", 0
        client.delete(self._own)

    def put(self, key: str, value: bytes) -> None:
        self._client.put(key, value)

    def get(self, key: str) -> None:
        if self._client.get(key)[0] is None:
            raise LookupError(f"etcd has no key {key}")

    def cas(self, value: bytes) -> None:
        parts = self._client.transactions
        done, answers = self._client.transaction(
            compare=[parts.mod(self._own) == self._revision],
            success=[parts.put(self._own, value)],
            failure=[],
        )
        if not done:
            raise LookupError(f"etcd: {self._own} is not at revision {self._revision}")
        self._revision = answers[0].response_put.header.revision


def workers_of(server: str, address: str, stack: ExitStack) -> Callable[[int], Worker]:
    if server == "lanemq":
        store = stack.enter_context(open_kv_store(name_servers=address, timeout_s=60.0))
        return lambda number: LanemqWorker(store, number)
    host, _, port = address.rpartition(":")
    client = stack.enter_context(import_module("etcd3").client(host=host, port=int(port)))
    return lambda number: EtcdWorker(client, number)


def key_of(number: int) -> str:
    return f"key/{number:08}"


def fill(made: Callable[[int], Worker], keys: int, value: bytes) -> int:
    def put(part: int) -> None:
        worker = made(1000 + part)
        for number in range(part, keys, FILLERS):
            worker.put(key_of(number), value)

    with ThreadPoolExecutor(FILLERS) as pool:
        list(pool.map(put, range(FILLERS)))
    return keys


def ask_in_turn(
    worker: Worker, operation: str, keys: int, value: bytes, seconds: float
) -> list[float]:
    """Ask again and again; returns the seconds of each."""
    taken: list[float] = []
    now = time.perf_counter()
    end = now + seconds
    while not taken or now < end:  # once at least, however late this is
        if operation == "put":
            worker.put(key_of(random.randrange(keys)), value)
        elif operation == "get":
            worker.get(key_of(random.randrange(keys)))
        else:
            worker.cas(value)
        then = time.perf_counter()
        taken.append(then - now)
        now = then
    return taken


def measure(command: dict[str, Any]) -> dict[str, float]:
    """Do one command, as ``measure`` of ``kv.go``."""
    operation, keys, clients = command["operation"], command["keys"], command["clients"]
    value = bytes(command["value_bytes"])
    with ExitStack() as stack:
        made = workers_of(command["server"], command["address"], stack)
        if operation == "fill":
            begun = time.perf_counter()
            return {"operations": fill(made, keys, value), "seconds": time.perf_counter() - begun}
        workers = [made(number) for number in range(clients)]
        pool = stack.enter_context(ThreadPoolExecutor(clients))
        begun = time.perf_counter()
        asked = [
            pool.submit(ask_in_turn, worker, operation, keys, value, command["seconds"])
            for worker in workers
        ]
        every = sorted(taken for one in asked for taken in one.result())
        seconds = time.perf_counter() - begun
    return {
        "operations": len(every),
        "seconds": seconds,
        "p50_us": every[len(every) // 2] * 1e6,
        "p99_us": every[len(every) * 99 // 100] * 1e6,
    }


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": measure(command)}
        except Exception as error:
            answer = {"error": "failed", "message": repr(error)}
        print(json.dumps({"id": command["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
