"""Parts of pools: messages of one queue, and a fake of what runs listeners outside of the core."""

from collections import deque
from collections.abc import Callable, Sequence

import trio

from lanemq.sdk import MessageQueue, ReceivedMessage
from lanemq.sdk.consumer.pool._outside_calls import OutsideCall
from lanemq.wire import HostAddress
from lanemq.wire.message import StoredMessage

QUEUE = MessageQueue("T", "broker-a", 0)
HOST = HostAddress("10.0.0.1", 1)


def messages_of(count: int) -> list[ReceivedMessage]:
    """Return ``count`` messages of ``QUEUE``, from offset 0."""
    return [
        ReceivedMessage(
            StoredMessage(
                size_bytes=100,
                magic=0,
                body_crc=0,
                queue_id=0,
                flag=0,
                queue_offset=offset,
                log_position=0,
                sys_flag=0,
                born_timestamp_ms=0,
                born_host=HOST,
                store_timestamp_ms=0,
                store_host=HOST,
                reconsume_times=0,
                prepared_transaction_offset=0,
                body=b"",
                topic="T",
                properties_data=b"",
            ),
            QUEUE,
        )
        for offset in range(count)
    ]


class FakeExecutor:
    """Calls nothing by itself: tests begin and end each call."""

    def __init__(self, *, ordered: bool = False, cancel_grace_s: float = 0.0) -> None:
        self.cancel_grace_s = cancel_grace_s
        self.is_waiting_ordered = ordered
        self.is_closed = False
        self.limit = 0
        self.ended: deque[OutsideCall] = deque()
        self.waiting: list[OutsideCall] = []
        self.begun: list[OutsideCall] = []
        self.cancelled: list[OutsideCall] = []
        self.handed_over: list[int] = []
        """The number of calls of each time that some were handed over."""
        self.leaving = trio.Event()
        self._on_ended: Callable[[], object] = lambda: None

    def open(self, on_ended: Callable[[], object]) -> None:
        self._on_ended = on_ended

    def now_s(self) -> float:
        return trio.current_time()

    def begin(self, calls: Sequence[OutsideCall]) -> None:
        self.handed_over.append(len(calls))
        self.waiting.extend(calls)

    def nudge(self) -> None:
        """Do nothing: tests look."""

    def recall(self) -> list[OutsideCall]:
        calls, self.waiting = self.waiting, []
        return calls

    def running(self) -> list[OutsideCall]:
        return list(self.begun)

    def cancel(self, call: OutsideCall) -> None:
        self.cancelled.append(call)

    async def wait_for_leave(self) -> None:
        await self.leaving.wait()

    def close(self) -> None:
        self.is_closed = True

    # For tests

    def start(self, count: int) -> None:
        """Begin the next ``count`` calls."""
        for call in self.waiting[:count]:
            call.begun_s = trio.current_time()
            self.begun.append(call)
        del self.waiting[:count]

    def end(
        self,
        calls: Sequence[OutsideCall],
        value: object = None,
        error: BaseException | None = None,
        *,
        was_cancelled: bool = False,
    ) -> None:
        """End calls that run, all at once."""
        for call in calls:
            self.begun.remove(call)
            call.value, call.error, call.was_cancelled = value, error, was_cancelled
            call.is_special = call.is_special or error is not None
            self.ended.append(call)
        self._on_ended()
