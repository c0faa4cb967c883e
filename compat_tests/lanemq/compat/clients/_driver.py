"""A driver process: one client family, spoken to in JSON lines.

    -> {"id": 7, "command": "send", "producer": "p1", "mode": "sync", "message": {...}}
    <- {"id": 7, "result": {...}}
       {"id": 7, "error": "MQBrokerException", "code": 13, "message": "..."}
       {"id": 7, "not_applicable": "the API of ... has no ..."}
    <- {"event": "message", "consumer": "c1", "succeeded": true, "message": {...}}

Bodies are base64. Commands of many cells run in one process at once.
"""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from lanemq.local import append_file, make_directories

from .._errors import CommandRefused, DriverFailed, NotApplicable
from ._messages import Delivery, Received

CALL_S = 150.0
"""Seconds for one call, longer than any client takes: only a hanging driver exceeds them."""
READ_BYTES = 1 << 20


class Driver:
    """A running driver. Get one from ``open_driver``."""

    def __init__(self, client: str, process: trio.Process, log: Path) -> None:
        self.client = client
        self._process, self._log = process, log
        self._writing = trio.Lock()
        self._last_id = 0
        self._answers: dict[int, trio.MemorySendChannel[dict[str, Any]]] = {}
        self._listeners: dict[str, Callable[[Delivery], None]] = {}
        self._failure: str | None = None

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """True if the process ended or broke its protocol."""
        return self._failure is not None

    async def call(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        """Ask for one command and return its result.

        Raises ``CommandRefused`` if the client raised an error, ``NotApplicable`` if it has no
        such feature, ``DriverFailed`` if the driver is gone or does not answer.
        """
        self._last_id += 1
        number = self._last_id
        line = msgspec.json.encode({"id": number, "command": command, **arguments}) + b"\n"
        send, receive = trio.open_memory_channel[dict[str, Any]](1)
        self._answers[number] = send
        try:
            if self._failure is not None:
                raise DriverFailed(self._failure)
            assert self._process.stdin is not None
            async with self._writing:
                await self._process.stdin.send_all(line)
            with trio.fail_after(CALL_S):
                answer = await receive.receive()
        except trio.TooSlowError:
            raise DriverFailed(f"{self.client}: no answer to {command} in {CALL_S:g} s") from None
        except (trio.EndOfChannel, trio.BrokenResourceError, trio.ClosedResourceError):
            raise DriverFailed(self._failure or f"{self.client}: driver is gone") from None
        finally:
            self._answers.pop(number, None)
        if "not_applicable" in answer:
            raise NotApplicable(answer["not_applicable"])
        if "error" in answer:
            code = answer.get("code")  # Java's JSON leaves null out
            raise CommandRefused(command, answer["error"], code, answer["message"])
        return answer.get("result")

    def listen(self, consumer: str, listener: Callable[[Delivery], None]) -> None:
        """Pass the messages that ``consumer`` receives from now on to ``listener``."""
        self._listeners[consumer] = listener

    async def read(self) -> None:
        """Hand out what the driver says until it ends; runs beside the calls."""
        assert self._process.stdout is not None
        buffer = bytearray()
        try:
            while chunk := await self._process.stdout.receive_some(READ_BYTES):
                buffer += chunk
                *lines, rest = buffer.split(b"\n")
                buffer = rest
                for line in lines:
                    self._dispatch(line)
        except (msgspec.MsgspecError, KeyError) as error:
            self._fail(f"{self.client}: driver broke its protocol: {error!r}")
        else:
            self._fail(f"{self.client}: driver ended; {self._last_words()}")

    def _dispatch(self, line: bytearray) -> None:
        said = msgspec.json.decode(line)
        if said.get("event") == "message":
            message = msgspec.convert(said["message"], Received)
            delivery = Delivery(message, said["succeeded"], trio.current_time())
            if listener := self._listeners.get(said["consumer"]):
                listener(delivery)
        elif answer := self._answers.get(said["id"]):
            answer.send_nowait(said)

    def _last_words(self) -> str:
        """Return the last line the process printed, which mostly is the error it died of."""
        said = self._log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(said) if line.strip()), "it said nothing")

    def _fail(self, reason: str) -> None:
        self._failure = reason
        for answer in self._answers.values():
            answer.close()


@asynccontextmanager
async def open_driver(
    client: str,
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Driver]:
    """Run a driver. ``folder`` becomes its home; what it prints is in ``<client>.log`` there."""
    home = folder / f"{client}-home"
    make_directories(home)
    arguments = list(command)
    if arguments[0] == "java":
        arguments[1:1] = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
    log_file = folder / f"{client}.log"
    with append_file(log_file) as log:
        process = await trio.lowlevel.open_process(
            arguments,
            cwd=home,
            env={**os.environ, "HOME": str(home), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    driver = Driver(client, process, log_file)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver.read)
            yield driver
            nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await trio.aclose_forcefully(stream)
