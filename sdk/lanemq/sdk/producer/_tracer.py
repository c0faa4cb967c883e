"""Writes down what a client sends and consumes, in the topic for traces.

Source: RocketMQ 4.9.8, AsyncTraceDispatcher.
"""

import itertools
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, final

import trio

from lanemq.wire.message import Property

from .._errors import LanemqError
from .._messages import Message, ReceivedMessage
from .._options import ProducerOptions
from .._tasks import open_quiet_nursery
from ..net._client import Client
from ..observe._consume_hooks import ConsumeHook, Consumption
from ..observe._log import get_logger
from ..observe._send_hooks import SendAttempt, SendHook
from ..observe._trace_records import (
    ConsumeReturn,
    TraceRecord,
    consumed_record,
    consuming_record,
    pack,
    sent_record,
    transaction_end_record,
)
from ._outgoing import prepare
from ._sender import Sender

LOGGER = get_logger("lanemq.sdk.trace")

COLLECT_S: Final = 0.5  # records wait this long for others
RECORDS_MAX: Final = 2048  # that wait; further ones are dropped, for traces must not fill memory
SEND_TIMEOUT_S: Final = 5.0
LEAVE_TIMEOUT_S: Final = 3.0

_NUMBERS = itertools.count(1)


@final
class Tracer:
    """Collects records of one producer or consumer and sends them. Made by `open_tracer`."""

    def __init__(self, client: Client, group: str, role: str) -> None:
        self._client = client
        self._group = group
        # What is sent for traces is not watched itself.
        self._options = ProducerOptions(client=replace(client.options, telemetry=False))
        name = f"_INNER_TRACE_PRODUCER-{group}-{role}-{next(_NUMBERS)}"
        self._sender = Sender(client, name, self._options)
        self._topic = client.options.trace_topic
        self._records: list[TraceRecord] = []
        self._dropped = 0
        self._some = trio.Event()
        self._flushing: trio.CancelScope | None = None
        self._end_s = math.inf

    @property
    def send_hook(self) -> SendHook:
        """The hook that traces a producer's sends."""
        return SendHook(after=self._sent)

    @property
    def consume_hook(self) -> ConsumeHook:
        """The hook that traces the messages that a listener is given."""
        return ConsumeHook(before=self._consuming, after=self._consumed)

    # Records

    def _add(self, record: TraceRecord) -> None:
        if len(self._records) >= RECORDS_MAX:
            self._dropped += 1
            return
        self._records.append(record)
        self._some.set()

    def _sent(self, attempt: SendAttempt) -> None:
        result = attempt.result
        if result is None or result.region is None or not result.trace_on:
            return
        count = len(attempt.messages)
        offset_ids = result.offset_id.split(",")
        if len(offset_ids) != count:  # a batch through a broker that gives one id for all
            offset_ids = [result.offset_id] * count
        for message, message_id, offset_id in zip(
            attempt.messages, attempt.message_ids, offset_ids, strict=True
        ):
            self._add(sent_record(attempt, result, message, message_id, offset_id))

    def _traced(self, event: Consumption) -> list[ReceivedMessage]:
        return [
            message
            for message in event.messages
            if message.properties.get(Property.TRACE_ON) != "false" and message.topic != self._topic
        ]

    def _consuming(self, event: Consumption) -> None:
        event.notes["trace"] = request_id = self._client.unique_keys.next(event.started_ms)
        for message in self._traced(event):
            self._add(consuming_record(event, message, request_id))

    def _consumed(self, event: Consumption) -> None:
        returned = ConsumeReturn.SUCCESS
        if isinstance(event.error, trio.Cancelled):
            returned = ConsumeReturn.TIMED_OUT
        elif event.error is not None:
            returned = ConsumeReturn.EXCEPTION
        elif not event.succeeded:
            returned = ConsumeReturn.FAILED
        for message in self._traced(event):
            self._add(consumed_record(event, message, event.notes["trace"], returned))

    def transaction_ended(
        self, message: Message | ReceivedMessage, message_id: str, state: str, address: str
    ) -> None:
        """Record the ``state`` told to the broker at ``address``; it had asked for a received
        one."""
        self._add(
            transaction_end_record(
                message,
                message_id,
                time_ms=self._client.clock_ms(),
                group=self._group,
                address=address,
                state=state,
            )
        )

    # Sending them

    async def run(self) -> None:
        """Send collected records, again and again, until cancelled.

        What is being sent then still is, until the time that `leave` sets.
        """
        while True:
            await self._some.wait()
            await trio.sleep(COLLECT_S)
            self._flushing = trio.CancelScope(shield=True, deadline=self._end_s)
            await self._flush_within(self._flushing)

    async def leave(self) -> None:
        """Send what is left, within ``LEAVE_TIMEOUT_S``, also where the caller is cancelled."""
        self._end_s = trio.current_time() + LEAVE_TIMEOUT_S
        if self._flushing is not None:
            self._flushing.deadline = self._end_s
        await self._flush_within(trio.CancelScope(shield=True, deadline=self._end_s))

    async def _flush_within(self, limit: trio.CancelScope) -> None:
        with limit:
            await self._flush()
        if limit.cancelled_caught:
            LOGGER.warning("trace messages were lost: %g s were not enough", LEAVE_TIMEOUT_S)

    async def _flush(self) -> None:
        """Send the records at hand. Those that cannot be sent are lost, and logged."""
        records, self._records = self._records, []
        self._some = trio.Event()
        if self._dropped:
            LOGGER.warning("%d trace records came too fast and were dropped", self._dropped)
            self._dropped = 0
        for text, keys in pack(records):
            message = Message(topic=self._topic, body=text.encode(), keys=keys)
            client = self._client
            try:
                outgoing = prepare(message, self._options, client.unique_keys, client.clock_ms())
                await self._sender.send(outgoing, None, SEND_TIMEOUT_S)
            except LanemqError as error:
                LOGGER.warning("a trace message was lost: %s", error)


@asynccontextmanager
async def open_tracer(client: Client, group: str, role: str) -> AsyncIterator[Tracer | None]:
    """Trace while the block runs, if the options of ``client`` say so; None if they do not.

    ``role`` is ``PRODUCE`` or ``CONSUME``. Leaving the block, in whatever way, sends what was
    collected, within ``LEAVE_TIMEOUT_S``.
    """
    if not client.options.trace:
        yield None
        return
    tracer = Tracer(client, group, role)
    async with open_quiet_nursery() as nursery:
        nursery.start_soon(tracer.run)
        try:
            yield tracer
        finally:
            nursery.cancel_scope.cancel()
            await tracer.leave()
