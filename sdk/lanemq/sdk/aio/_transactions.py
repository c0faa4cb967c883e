"""Generated from lanemq.sdk._transactions by sdk/tools/generate_faces.py."""

from typing import final

from .. import _transactions as _core
from .._messages import Message
from .._transactions import Execute, TransactionResult
from ._bridge import Bridge
from ._producer import Producer


@final
class TransactionProducer(Producer):
    """A producer that also sends in transactions; made by `open_transaction_producer`."""

    def __init__(self, core: _core.TransactionProducer, bridge: Bridge) -> None:
        super().__init__(core, bridge)
        self._core: _core.TransactionProducer = core

    async def send_in_transaction(
        self, message: Message, execute: Execute, *, timeout_s: float | None = None
    ) -> TransactionResult:
        """Store the half message, await ``execute``, and tell the broker what it returned.

        When ``execute`` raises, the state is UNKNOWN, since it may have got far enough; the
        exception leaves this call after the broker was told. After a cancellation the broker is
        not told, and asks. A half message that was stored less safely than asked for is rolled
        back without ``execute`` being called.

        Raises as ``Producer.send``, before ``execute`` is called; ``RefusedByBroker`` from
        brokers without transactions. Telling the broker may fail unnoticed: it asks then.
        """
        return await self._bridge.call(
            self._core.send_in_transaction,
            message,
            self._bridge.callback(execute),
            timeout_s=timeout_s,
        )
