"""The write path: messages in, records out.

``put`` only makes the record; ``write`` writes all records since the last one with one call. Then
a server may answer, for what is written can no longer be lost; ``Dispatcher`` makes it visible.
Source: RocketMQ 4.9.8, CommitLog.asyncPutMessage.
"""

from collections.abc import Callable
from itertools import accumulate, count, islice
from typing import Final, final

import msgspec

from lanemq.local import get_logger
from lanemq.wire import LocalProtocolError, SysFlag
from lanemq.wire.message import (
    MAX_PROPERTIES_BYTES,
    BatchEntry,
    encode_batch_records,
    encode_record,
)

from .._errors import MessageIllegal, StoreUnwritable, disk_problem, is_exhausted
from .._layouts import BLANK_HEADER_BYTES
from .._statistics import Counters
from ..index._index import Index
from ..log._commit_log import CommitLog
from ..queues._queue_positions import (
    LIGHT_QUEUES_MAX,
    LMQ_QUEUE_ID,
    cut_to_lights,
    light_queues,
    with_light_offsets,
)
from ..queues._queues import ConsumeQueue, Queues, check_names
from ..queues._tags import TagsCodes
from ._dispatcher import Dispatcher
from ._messages import Appended, NewBatch, NewMessage, Put, PutBatch
from ._sizes import RecordSizes

LOGGER = get_logger(__name__)
TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK
COMMIT: Final = SysFlag.TRANSACTION_COMMIT
MULTI: Final = b"INNER_MULTI_"
"""The beginning of the names of properties about light queues."""
INDEX_FULL: Final = "too many keys of messages wait for the key index"
ONE_MESSAGE: Final = ~SysFlag.INNER_BATCH
"""The flags of what is appended here: a record holds one message, which has a place in its queue.
Dispatch from the log goes by the flags, so what a client says of them must not decide that."""


@final
class Appender:
    """The write path of a store. No method waits. ``reason`` tells why nothing may be written, or
    is empty."""

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
        self._tags = tags
        self._clock_ms = clock_ms
        self._max_message_bytes = max_message_bytes
        self._multi_dispatch = multi_dispatch
        self._counters = counters
        self._by_key: dict[tuple[str, int], ConsumeQueue] = {}
        self._pending: list[Appended] = []
        self.dispatcher = Dispatcher(index=index, counters=counters, on_failure=self.failed)
        self.reason = ""
        sizes = RecordSizes(max_message_bytes)
        self._record_bytes, self._batch_sizes = sizes.of, sizes.of_batch

    def forget_queues(self) -> None:
        """Forget cached queues, since some were removed."""
        self._by_key.clear()

    def refuse(self, reason: str, error: OSError | None = None) -> None:
        """Refuse messages from now on. Producers are told the reason; the first one is kept."""
        if not self.reason:
            LOGGER.error("messages are refused from now on: %s: %s", reason, error or "")
            self.reason = reason if error is None else f"{reason}: {disk_problem(error)}"

    def failed(self, what: str, error: OSError) -> str:
        """Refuse messages because ``what`` failed, unless it may work again in a moment.

        Returns the reason, which is the first one where messages were refused already.
        """
        if is_exhausted(error):
            LOGGER.error("%s, next try soon: %s", what, error)
            return f"{what}: {disk_problem(error)}"
        self.refuse(what, error)
        return self.reason

    def put(self, message: NewMessage) -> Put:
        if self.reason or self.dispatcher.is_index_full:
            raise StoreUnwritable(self.reason or INDEX_FULL)
        queue = self._by_key.get((message.topic, message.queue_id))
        if queue is None:
            queue = self._queue(message.topic, message.queue_id)
        if message.properties.find(MULTI) >= 0:  # `in` makes an error first, in Python 3.11
            return self._put_with_lights(message, queue)
        size = self._record_bytes(message, len(queue.topic_data))
        log = self._log
        position = log.next
        if size + BLANK_HEADER_BYTES > log.file_end - position:
            self._check_file(size)
            position = log.room(size)
        return self._append(message, queue, size, position)

    def _put_with_lights(self, message: NewMessage, queue: ConsumeQueue) -> Put:
        offsets = self._light_offsets(message) if self._multi_dispatch else {}
        properties = with_light_offsets(message.properties, offsets)
        if message.was_taken and self._multi_dispatch:
            properties, offsets = _fitting(message, properties, offsets)
        message = msgspec.structs.replace(message, properties=properties)
        size = self._record_bytes(message, len(queue.topic_data))
        self._check_file(size)
        put = self._append(message, queue, size, self._log.room(size))
        appended = self._pending[-1]
        if appended.is_queued:
            # Made now, when nothing can refuse the message any more.
            lights = [self._queues.make(name, LMQ_QUEUE_ID) for name in offsets]
            places = tuple(zip(lights, offsets.values(), strict=True))
            for light, offset in places:
                light.next = offset + 1
            self._pending[-1] = msgspec.structs.replace(appended, lights=places)
        return put

    def _light_offsets(self, message: NewMessage) -> dict[str, int]:
        """Return the offsets that a message will have in light queues. Raises ``MessageIllegal``
        for a name that no queue can have; one that was taken before is put into the others."""
        offsets: dict[str, int] = {}
        for name in light_queues(message.topic, message.properties)[:LIGHT_QUEUES_MAX]:
            try:
                check_names(name, LMQ_QUEUE_ID)
            except MessageIllegal:
                if message.was_taken:
                    continue
                raise
            light = self._queues.find(name, LMQ_QUEUE_ID)
            offsets[name] = 0 if light is None else light.next
        return offsets

    def put_batch(self, batch: NewBatch) -> PutBatch:
        """Append all messages of ``batch``, which has at least one, or none of them.

        Their common parts are looked up and checked once.
        Source: RocketMQ 4.9.8, CommitLog.asyncPutMessages.
        """
        if self.reason or self.dispatcher.is_index_full:
            raise StoreUnwritable(self.reason or INDEX_FULL)
        if batch.sys_flag & TRANSACTION_MASK:
            raise MessageIllegal("a batch cannot be part of a transaction")
        entries = batch.entries
        if any(entry.properties.find(MULTI) >= 0 for entry in entries):
            batch = msgspec.structs.replace(batch, entries=[_in_no_light(one) for one in entries])
            entries = batch.entries
        key = batch.topic, batch.queue_id
        queue = self._by_key.get(key) or self._queue(*key)
        sizes = self._batch_sizes(batch, len(queue.topic_data))
        total = sum(sizes)
        if total > self._max_message_bytes:
            raise MessageIllegal(
                f"a batch of {total} bytes, at most {self._max_message_bytes} are taken"
            )
        self._check_file(total)
        log, now_ms = self._log, self._clock_ms()
        start, offset = log.room(total), queue.next
        sys_flag = batch.sys_flag & ONE_MESSAGE
        try:
            pieces = encode_batch_records(
                topic=queue.topic_data,
                entries=entries,
                sizes=sizes,
                queue_id=batch.queue_id,
                queue_offset=offset,
                log_position=start,
                sys_flag=sys_flag,
                born_timestamp_ms=batch.born_timestamp_ms,
                born_host=batch.born_host,
                store_timestamp_ms=now_ms,
                store_host=batch.store_host,
                reconsume_times=batch.reconsume_times,
            )
        except LocalProtocolError as error:
            raise MessageIllegal(str(error)) from error
        log.pending += pieces
        log.next = start + total
        queue.next = offset + len(entries)
        positions = list(accumulate(sizes[:-1], initial=start))
        properties = [entry.properties for entry in entries]
        codes = self._tags.codes(batch.topic, properties, now_ms)
        self._pending += [
            Appended(queue, number, True, position, size, code, now_ms, sys_flag, text)
            for number, position, size, code, text in zip(
                count(offset), positions, sizes, codes, properties, strict=False
            )
        ]
        return PutBatch(positions, offset, total, now_ms, log.next)

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self._by_key[topic, queue_id] = self._queues.make(topic, queue_id)
        return queue

    def _check_file(self, size: int) -> None:
        if size + BLANK_HEADER_BYTES > self._log.segments.file_bytes:
            raise MessageIllegal(f"{size} bytes do not fit into a file of the log")

    def _append(self, message: NewMessage, queue: ConsumeQueue, size: int, position: int) -> Put:
        now_ms = self._clock_ms()
        sys_flag = message.sys_flag & ONE_MESSAGE
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
            Appended(queue, offset, is_queued, position, size, code, now_ms, sys_flag, properties)
        )
        return Put(position, offset, size, now_ms)

    def commit(self) -> None:
        self.write()
        self.dispatcher.dispatch()

    def write(self) -> bool:
        """Write what was put to the log; returns whether there was anything."""
        pending = self._pending
        if not pending:
            return False
        self._pending = []
        try:
            self._log.commit()
        except OSError as error:
            for message in reversed(pending):
                if message.is_queued:
                    message.queue.next = message.queue_offset
                for light, light_offset in message.lights:
                    light.next = light_offset
            self._counters.put_failed += len(pending)
            reason = self.failed("the commit log cannot be written", error)
            raise StoreUnwritable(reason) from error
        self.dispatcher.written += pending
        return True


def _in_no_light(entry: BatchEntry) -> BatchEntry:
    """Return a message of a batch without offsets in light queues: it has none."""
    return msgspec.structs.replace(entry, properties=with_light_offsets(entry.properties, {}))


def _fitting(
    message: NewMessage, properties: bytes, offsets: dict[str, int]
) -> tuple[bytes, dict[str, int]]:
    """Return the properties and offsets of a message that was taken before these limits: in as
    many of its first light queues as may be, and there is room for."""
    if set(light_queues(message.topic, message.properties)) != set(offsets):
        properties = cut_to_lights(properties, offsets)
    while offsets and len(properties) > MAX_PROPERTIES_BYTES:
        offsets = dict(islice(offsets.items(), len(offsets) // 2))
        properties = cut_to_lights(with_light_offsets(message.properties, offsets), offsets)
    return properties, offsets
