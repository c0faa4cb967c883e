"""Runs the scenarios of ``scenarios.py`` over each face of the SDK, for tests."""

import ast
import asyncio
import inspect
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import trio

import lanemq.sdk
import lanemq.sdk.admin
import lanemq.sdk.aio
import lanemq.sdk.aio.admin
import lanemq.sdk.blocking
import lanemq.sdk.blocking.admin

from . import scenarios

FACES: Final = ("trio", "asyncio", "blocking")
PATIENCE_S: Final = 60.0


class Kit:
    """The names and the server that scenarios share."""

    def __init__(self, name_servers: str, run: str) -> None:
        self.name_servers = name_servers
        self._run = run

    def name(self, name: str) -> str:
        """Return a topic or group that is nobody else's."""
        return f"{name}-{self._run}"

    @staticmethod
    def frames(error: BaseException) -> list[str]:
        """Return the functions in the traceback of ``error``."""
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


class TrioKit(Kit):
    sdk, sdk_admin = lanemq.sdk, lanemq.sdk.admin
    nursery: trio.Nursery

    event = trio.Event
    sleep = staticmethod(trio.sleep)
    here = staticmethod(trio.lowlevel.current_task)

    @staticmethod
    async def wait(event: trio.Event) -> None:
        with trio.fail_after(PATIENCE_S):
            await event.wait()

    @staticmethod
    async def together(*functions: Callable[[], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for function in functions:
                nursery.start_soon(function)

    async def begin(self, function: Callable[[], Awaitable[None]]) -> trio.Event:
        ended = trio.Event()

        async def run() -> None:
            await function()
            ended.set()

        self.nursery.start_soon(run)
        return ended

    @staticmethod
    async def end(ended: trio.Event) -> None:
        await TrioKit.wait(ended)


class AioKit(Kit):
    sdk, sdk_admin = lanemq.sdk.aio, lanemq.sdk.aio.admin

    event = asyncio.Event
    sleep = staticmethod(asyncio.sleep)
    here = staticmethod(asyncio.current_task)

    @staticmethod
    async def wait(event: asyncio.Event) -> None:
        await asyncio.wait_for(event.wait(), PATIENCE_S)

    @staticmethod
    async def together(*functions: Callable[[], Any]) -> None:
        await asyncio.gather(*(function() for function in functions))

    @staticmethod
    async def begin(function: Callable[[], Any]) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(function())
        return task

    @staticmethod
    async def end(task: "asyncio.Task[None]") -> None:
        await asyncio.wait_for(task, PATIENCE_S)


class ThreadKit(Kit):
    sdk, sdk_admin = lanemq.sdk.blocking, lanemq.sdk.blocking.admin
    pool: ThreadPoolExecutor

    event = threading.Event
    sleep = staticmethod(time.sleep)
    here = staticmethod(threading.current_thread)

    @staticmethod
    def wait(event: threading.Event) -> None:
        assert event.wait(PATIENCE_S), "it did not happen"

    def together(self, *functions: Callable[[], None]) -> None:
        for future in [self.pool.submit(function) for function in functions]:
            future.result(PATIENCE_S)

    def begin(self, function: Callable[[], None]) -> "Future[None]":
        return self.pool.submit(function)

    @staticmethod
    def end(future: "Future[None]") -> None:
        future.result(PATIENCE_S)


class _Plain(ast.NodeTransformer):
    """Removes ``async`` and ``await``."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.generic_visit(ast.FunctionDef(**vars(node)))

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return self.generic_visit(ast.With(**vars(node)))

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self.generic_visit(ast.For(**vars(node)))

    def visit_Await(self, node: ast.Await) -> ast.AST:
        value: ast.AST = self.visit(node.value)
        return value


def _plain_scenarios() -> dict[str, Any]:
    source = inspect.getsource(scenarios)
    tree = _Plain().visit(ast.parse(source))
    names: dict[str, Any] = {
        "__name__": scenarios.__name__,
        "__package__": scenarios.__package__,
    }
    exec(compile(tree, inspect.getfile(scenarios), "exec"), names)
    return names


_PLAIN: Final = _plain_scenarios()


def run_scenario(face: str, name: str, *, name_servers: str, run: str) -> None:
    """Run the scenario ``name`` over ``face``; ``run`` sets its topics apart from others'."""
    scenario = getattr(scenarios, name)
    if face == "trio":
        trio.run(_run_on_trio, scenario, TrioKit(name_servers, run))
    elif face == "asyncio":
        asyncio.run(scenario(AioKit(name_servers, run)))
    else:
        kit = ThreadKit(name_servers, run)
        with ThreadPoolExecutor(16) as kit.pool:
            _PLAIN[name](kit)


async def _run_on_trio(scenario: Callable[[Kit], Awaitable[None]], kit: TrioKit) -> None:
    async with trio.open_nursery() as kit.nursery:
        await scenario(kit)
