"""The write path: messages in, records and queue units out.

``put`` only makes the record; ``write`` writes all records since the last one with one call, and
``dispatch`` makes them visible: queue units, index, arrival callbacks. No log is read again for
that. Between the two a server may answer, for what is written is not lost any more.
Source: RocketMQ 4.9.8, CommitLog.asyncPutMessage and DefaultMessageStore.ReputMessageService.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, final

import msgspec

from lanemq.wire import (
    MAX_PROPERTIES_BYTES,
    LocalProtocolError,
    Property,
    SysFlag,
    encode_record,
)

from ._commit_log import CommitLog
from ._errors import MessageIllegal, StoreUnwritable
from ._index import Index
from ._layouts import BLANK_HEADER_BYTES
from ._messages import NewMessage, Put
from ._places import LMQ_QUEUE_ID, light_queues, with_light_offsets
from ._queues import ConsumeQueue, Queues
from ._statistics import Counters
from ._tags import TagsCodes

LOGGER = logging.getLogger(__name__)
FIXED_BYTES: Final = 91 - 2 * 8  # of a version 1 record without its hosts
V1_TOPIC_BYTES_MAX: Final = 127
TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK
COMMIT: Final = SysFlag.TRANSACTION_COMMIT
MULTI_DISPATCH: Final = Property.INNER_MULTI_DISPATCH.encode()

Arrival = Callable[[str, int, int, int], None]
Lights = tuple[tuple[ConsumeQueue, int], ...]  # light queues and the offsets in them
# (queue, queue offset, is queued, position, size, tags code, store time, sysFlag, properties, ...)
Pending = tuple[ConsumeQueue, int, bool, int, int, int, int, int, bytes, Lights]


@final
class Appender:
    """No method waits. ``reason`` is why nothing may be written, or empty."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: Queues,
        index: Index | None,
        tags: TagsCodes,
        clock_ms: Callable[[], int],
        max_message_bytes: int,
        multi_dispatch: bool,
        counters: Counters,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._tags = tags
        self._clock_ms = clock_ms
        self._max_message_bytes = max_message_bytes
        self._multi_dispatch = multi_dispatch
        self._counters = counters
        self._by_key: dict[tuple[str, int], ConsumeQueue] = {}
        self._pending: list[Pending] = []
        self._written: list[Pending] = []
        self.on_arrival: list[Arrival] = []
        self.on_dispatch: list[Callable[[list[Pending]], None]] = []
        """Other indexes: they are given what was dispatched. Raise ``OSError``."""
        self.reason = ""
        self.last_store_ms = 0
        """Store time of the newest dispatched message."""
        self.dispatched_end = 0
        """Position behind the newest dispatched message."""

    def start_at(self, position: int, store_ms: int) -> None:
        """Say where recovery found the end of the log, and when its last message was stored."""
        self.dispatched_end, self.last_store_ms = position, store_ms

    def forget_queues(self) -> None:
        """Look queues up again: some were removed."""
        self._by_key.clear()

    def refuse(self, reason: str) -> None:
        """Take no message from now on; the first reason is kept."""
        if not self.reason:
            LOGGER.error("no messages are taken from now on: %s", reason)
            self.reason = reason

    def put(self, message: NewMessage) -> Put:
        if self.reason:
            raise StoreUnwritable(self.reason)
        queue = self._by_key.get((message.topic, message.queue_id))
        if queue is None:
            queue = self._queue(message)
        if self._multi_dispatch and MULTI_DISPATCH in message.properties:
            return self._put_with_lights(message, queue)
        size = self._record_bytes(message, len(queue.topic_data))
        log = self._log
        position = log.next
        if size + BLANK_HEADER_BYTES > log.file_end - position:
            self._check_file(size)
            position = log.room(size)
        return self._append(message, queue, size, position)

    def _put_with_lights(self, message: NewMessage, queue: ConsumeQueue) -> Put:
        lights: dict[str, ConsumeQueue] = {}
        for name in light_queues(message.topic, message.properties):
            lights[name] = self._queues.make(name, LMQ_QUEUE_ID)
        offsets = {name: light.next for name, light in lights.items()}
        properties = with_light_offsets(message.properties, offsets)
        message = msgspec.structs.replace(message, properties=properties)
        size = self._record_bytes(message, len(queue.topic_data))
        self._check_file(size)
        put = self._append(message, queue, size, self._log.room(size))
        *fields, _ = self._pending[-1]
        is_queued = fields[2]
        if is_queued:
            places = tuple((light, light.next) for light in lights.values())
            for light, offset in places:
                light.next = offset + 1
            self._pending[-1] = (*self._pending[-1][:-1], places)
        return put

    def put_batch(self, messages: Sequence[NewMessage]) -> list[Put]:
        if self.reason:
            raise StoreUnwritable(self.reason)
        if not messages:
            return []
        queue = self._queue(messages[0])
        sizes = []
        for message in messages:
            if message.topic != queue.topic or message.queue_id != queue.queue_id:
                raise MessageIllegal("a batch goes to one queue of one topic")
            sizes.append(self._record_bytes(message, len(queue.topic_data)))
        total = sum(sizes)
        if total > self._max_message_bytes:
            raise MessageIllegal(
                f"a batch of {total} bytes, at most {self._max_message_bytes} are taken"
            )
        self._check_file(total)
        self._log.room(total)
        log = self._log
        mark = len(self._pending), len(log.pending), log.next, queue.next
        try:
            return [
                self._append(message, queue, size, log.next)
                for message, size in zip(messages, sizes, strict=True)
            ]
        except MessageIllegal:
            pending_count, records_count, log.next, queue.next = mark
            del self._pending[pending_count:], log.pending[records_count:]
            raise

    def _queue(self, message: NewMessage) -> ConsumeQueue:
        key = message.topic, message.queue_id
        queue = self._by_key.get(key)
        if queue is None:
            queue = self._by_key[key] = self._queues.make(*key)
        return queue

    def _record_bytes(self, message: NewMessage, topic_bytes: int) -> int:
        body_bytes, properties_bytes = len(message.body), len(message.properties)
        if body_bytes > self._max_message_bytes:
            raise MessageIllegal(
                f"a body of {body_bytes} bytes, at most {self._max_message_bytes} are taken"
            )
        if properties_bytes > MAX_PROPERTIES_BYTES:
            raise MessageIllegal(
                f"properties of {properties_bytes} bytes, at most {MAX_PROPERTIES_BYTES} fit"
            )
        size = FIXED_BYTES + body_bytes + topic_bytes + properties_bytes
        size += len(message.born_host) + len(message.store_host)
        return size if topic_bytes <= V1_TOPIC_BYTES_MAX else size + 1

    def _check_file(self, size: int) -> None:
        if size + BLANK_HEADER_BYTES > self._log.segments.file_bytes:
            raise MessageIllegal(f"{size} bytes do not fit into a file of the log")

    def _append(self, message: NewMessage, queue: ConsumeQueue, size: int, position: int) -> Put:
        now_ms = self._clock_ms()
        sys_flag = message.sys_flag
        transaction = sys_flag & TRANSACTION_MASK
        is_queued = transaction == 0 or transaction == COMMIT
        offset = queue.next if is_queued else 0
        properties = message.properties
        try:
            record = encode_record(
                topic=queue.topic_data,
                body=message.body,
                properties=properties,
                queue_id=message.queue_id,
                flag=message.flag,
                queue_offset=offset,
                log_position=position,
                sys_flag=sys_flag,
                born_timestamp_ms=message.born_timestamp_ms,
                born_host=message.born_host,
                store_timestamp_ms=now_ms,
                store_host=message.store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=message.prepared_transaction_offset,
            )
        except LocalProtocolError as error:
            raise MessageIllegal(str(error)) from error
        log = self._log
        log.pending.append(record)
        log.next = position + size
        code = self._tags.code(message.topic, properties, now_ms)
        if is_queued:
            queue.next = offset + 1
        self._pending.append(
            (queue, offset, is_queued, position, size, code, now_ms, sys_flag, properties, ())
        )
        return Put(position, offset, size, now_ms)

    def commit(self) -> None:
        self.write()
        self.dispatch()

    def write(self) -> None:
        pending = self._pending
        if not pending:
            return
        self._pending = []
        try:
            self._log.commit()
        except OSError as error:
            for queue, offset, is_queued, *_, lights in reversed(pending):
                if is_queued:
                    queue.next = offset
                for light, light_offset in lights:
                    light.next = light_offset
            self._counters.put_failed += len(pending)
            self.refuse(f"the commit log cannot be written: {error}")
            raise StoreUnwritable(self.reason) from error
        self._written += pending

    @property
    def is_behind(self) -> bool:
        """Whether something that was written is not dispatched yet."""
        return bool(self._written)

    def dispatch(self, limit: int | None = None) -> None:
        """Dispatch what was written; with ``limit``, what ends at or before that position."""
        pending = self._written
        if limit is not None and pending and pending[-1][3] + pending[-1][4] > limit:
            count = bisect_right(pending, limit, key=lambda one: one[3] + one[4])
            pending, self._written = pending[:count], pending[count:]
        else:
            self._written = []
        if not pending:
            return
        index, arrivals = self._index, self.on_arrival
        total_bytes = 0
        for (
            queue,
            _,
            is_queued,
            position,
            size,
            code,
            store_ms,
            sys_flag,
            properties,
            lights,
        ) in pending:
            total_bytes += size
            if is_queued:
                queue.append(position, size, code)
                for arrived in arrivals:
                    arrived(queue.topic, queue.queue_id, queue.end, code)
                for light, _ in lights:
                    light.append(position, size, code)
                    for arrived in arrivals:
                        arrived(light.topic, light.queue_id, light.end, code)
            if index is not None:
                try:
                    index.submit(queue.topic, position, store_ms, sys_flag, properties)
                except OSError as error:  # the message waits in the backlog
                    self.refuse(f"the index cannot be written: {error}")
        self.last_store_ms = store_ms
        self.dispatched_end = position + size
        for take in self.on_dispatch:
            try:
                take(pending)
            except OSError as error:  # it waits there
                self.refuse(f"RocksDB cannot be written: {error}")
        self._counters.put_total += len(pending)
        self._counters.put_bytes += total_bytes
