"""Blocks of every kind around a test's server: ``with``, and ``async with`` on trio and asyncio."""

import asyncio
from collections.abc import Callable, Mapping
from typing import final

import trio

from ._server import TestServer


@final
class Opening:
    """The result of ``open_test_server``: a server that runs for the length of a block, once.

    ``start`` and ``close`` are for where a block is not possible, as in ``unittest``.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._server = TestServer(settings)

    def start(self) -> TestServer:
        """Start the server, and return once clients find it. Raises ``RuntimeError`` the second
        time."""
        self._server._start()
        return self._server

    def close(self) -> None:
        """Stop the server, and return once it has ended. Raises an error that occurred in it."""
        self._server._close()

    def __enter__(self) -> TestServer:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> TestServer:
        try:
            await _in_thread(self.start)
        except asyncio.CancelledError:  # a block that does not begin is never ended
            await _in_thread(self.close)
            raise
        return self._server

    async def __aexit__(self, *error: object) -> None:
        await _in_thread(self.close)


async def _in_thread(call: Callable[[], object]) -> None:
    """Wait for ``call`` on the event loop that runs here, whatever is cancelled meanwhile."""
    if trio.lowlevel.in_trio_run():
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(call)
        return
    task = asyncio.ensure_future(asyncio.to_thread(call))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def open_test_server(settings: Mapping[str, str] | None = None) -> Opening:
    """Run a name server and a broker in this process, for ``with`` or ``async with``.

    They listen on free ports of the loopback address and keep everything in memory. ``settings``
    are keys of a broker.conf with their values, for a broker that differs from the default:
    ``{"autoCreateTopicEnable": "false"}``. Raises ``ConfigError`` for settings that cannot be, or
    that a test server chooses itself: its ports, name servers and directories, files for queues.

    ```python
    with open_test_server() as server:
        with open_producer("orders", name_servers=server.name_servers) as producer:
            producer.send(Message(topic="Orders", body=b"1"))
        assert [message.body for message in server.messages("Orders")] == [b"1"]
    ```
    """
    return Opening(settings or {})
