"""The producers that a cell opens, and the results of their sends."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ..clients._driver import Driver
from ..clients._messages import Outgoing, Received, Reply, Sent
from ._consumers import Consumer


class Producer:
    """A producer of the client under test."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver, self.name = driver, name

    async def send(
        self, message: Outgoing, *, mode: str = "sync", queue_id: int | None = None
    ) -> Sent:
        """Send and return what the client made of the answer (mode "sync" or "async")."""
        result = await self._send(message, mode, queue_id)
        return msgspec.convert(result, Sent)

    async def send_oneway(self, message: Outgoing, *, queue_id: int | None = None) -> None:
        """Send without an answer."""
        await self._send(message, "oneway", queue_id)

    # What comes back is JSON.
    async def _send(self, message: Outgoing, mode: str, queue_id: int | None) -> Any:  # noqa: ANN401
        chosen = {} if queue_id is None else {"queue_id": queue_id}
        return await self._driver.call(
            "send", producer=self.name, mode=mode, message=message, **chosen
        )

    async def send_batch(self, messages: Sequence[Outgoing]) -> Sent:
        """Send several messages as one request."""
        result = await self._driver.call("send_batch", producer=self.name, messages=messages)
        return msgspec.convert(result, Sent)

    async def request(self, message: Outgoing, *, timeout_s: float) -> Reply:
        """Send a message that is replied to, and return the reply."""
        result = await self._driver.call(
            "request", producer=self.name, message=message, timeout_ms=round(timeout_s * 1000)
        )
        return msgspec.convert(result, Reply)

    async def query_by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 1 << 62
    ) -> list[Received]:
        """Ask for messages by one of their KEYS, stored in a span of time."""
        result = await self._driver.call(
            "query_by_key",
            producer=self.name,
            topic=topic,
            key=key,
            max_count=32,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )
        return msgspec.convert(result, list[Received])

    async def query_by_unique_key(self, topic: str, message_id: str) -> Received:
        """Ask for a message by the unique key its sender gave it."""
        arguments = {"producer": self.name, "topic": topic, "message_id": message_id}
        return msgspec.convert(
            await self._driver.call("query_by_unique_key", **arguments), Received
        )

    async def view(self, topic: str, offset_id: str) -> Received:
        """Ask for a message by the id that says where it lies."""
        arguments = {"producer": self.name, "topic": topic, "offset_id": offset_id}
        return msgspec.convert(await self._driver.call("view_message", **arguments), Received)


class TransactionProducer(Producer):
    """A producer of transactions of the client under test, and the checks it was asked for."""

    def __init__(self, driver: Driver, name: str, checks: Consumer) -> None:
        super().__init__(driver, name)
        self.checks = checks
        """Every check, as a delivery of the half message."""

    async def send_in_transaction(
        self, message: Outgoing, *, local: str, checks: Sequence[str] = ("unknown",)
    ) -> Sent:
        """Send a half message whose local transaction ends as ``local``: "commit", "rollback" or
        "unknown".

        ``checks`` are the answers to the checks, the last one of them again and again.
        """
        told = {**message.properties, "local": local, "checks": ",".join(checks)}
        result = await self._driver.call(
            "send_in_transaction",
            producer=self.name,
            message=msgspec.structs.replace(message, properties=told),
        )
        return msgspec.convert(result, Sent)
