"""The protocol between the harness and the driver, and the clients that are open."""

import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import trio

from lanemq.sdk import RefusedByBroker

READ_BYTES = 1 << 20


class NotInTheSdk(Exception):  # noqa: N818 - says what is so
    """The SDK has no such feature."""


class Held:
    """An open client object and the task that keeps it open."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.close = trio.Event()
        self.closed = trio.Event()
        self.error: Exception | None = None


class Session:
    """The clients that are open, and the way back to the harness."""

    def __init__(self, nursery: trio.Nursery, wire: trio.abc.SendStream) -> None:
        self._nursery, self._wire = nursery, wire
        self._writing = trio.Lock()
        self._held: dict[str, Held] = {}

    async def write(self, line: dict[str, object]) -> None:
        """Write one line."""
        data = msgspec.json.encode(line) + b"\n"
        async with self._writing:
            await self._wire.send_all(data)

    async def open(self, name: str, context: AbstractAsyncContextManager[object]) -> None:
        """Enter a context in a task of its own, which stays in it until ``close``."""
        held = await self._nursery.start(self._hold, context)
        if held.error is not None:
            raise held.error
        self._held[name] = held

    async def _hold(
        self,
        context: AbstractAsyncContextManager[object],
        task_status: trio.TaskStatus[Held] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        held = Held(None)
        entered = False
        try:
            async with context as held.value:
                entered = True
                task_status.started(held)
                await held.close.wait()
        except Exception as error:  # one client's failure is not the others'
            traceback.print_exc()
            held.error = error
        held.closed.set()
        if not entered:
            task_status.started(held)

    def get(self, name: str) -> Any:  # noqa: ANN401 - whatever was opened by that name
        """Return the client that was opened under a name."""
        return self._held[name].value

    async def close(self, name: str) -> None:
        """Leave the context of ``name``; raise what it died of, if it did."""
        held = self._held.pop(name)
        held.close.set()
        await held.closed.wait()
        if held.error is not None:
            raise held.error


Command = Callable[[Session, dict[str, Any]], Awaitable[object]]


async def serve(commands: dict[str, Command]) -> None:
    """Answer commands until stdin ends."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    wire = trio.lowlevel.FdStream(os.dup(1))
    sys.stdout = sys.stderr  # what anybody prints must not get between our lines
    async with stdin, wire, trio.open_nursery() as nursery:
        session = Session(nursery, wire)
        buffer = bytearray()
        while chunk := await stdin.receive_some(READ_BYTES):
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                nursery.start_soon(_answer, commands, session, msgspec.json.decode(line))
        nursery.cancel_scope.cancel()


async def _answer(commands: dict[str, Command], session: Session, request: dict[str, Any]) -> None:
    reply: dict[str, object] = {"id": request["id"]}
    name = request["command"]
    try:
        if name not in commands:
            raise NotInTheSdk(f"lanemq.sdk has no {name}")
        reply["result"] = await commands[name](session, request)
    except NotInTheSdk as missing:
        reply["not_applicable"] = str(missing)
    except Exception as error:  # the answer to the command
        traceback.print_exc()
        reply["error"] = type(error).__name__
        reply["code"] = error.code if isinstance(error, RefusedByBroker) else None
        reply["message"] = str(error)
    await session.write(reply)
