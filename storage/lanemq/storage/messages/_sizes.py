"""The bytes that messages take in the log, and those that are too large for it."""

from typing import Final, final

from lanemq.wire.message import MAX_PROPERTIES_BYTES

from .._errors import MessageIllegal
from ._messages import NewBatch, NewMessage

FIXED_BYTES: Final = 91 - 2 * 8  # of a version 1 record without its hosts
V1_TOPIC_BYTES_MAX: Final = 127


@final
class RecordSizes:
    """The sizes of records whose messages have at most ``max_message_bytes``."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes

    def of(self, message: NewMessage, topic_bytes: int) -> int:
        """Compute the bytes of a record. Raises ``MessageIllegal``."""
        body_bytes, properties_bytes = len(message.body), len(message.properties)
        if body_bytes > self._max_message_bytes or properties_bytes > MAX_PROPERTIES_BYTES:
            self._refuse_size(0 if message.was_taken else body_bytes, properties_bytes)
        size = FIXED_BYTES + body_bytes + topic_bytes + properties_bytes
        size += len(message.born_host) + len(message.store_host)
        return size if topic_bytes <= V1_TOPIC_BYTES_MAX else size + 1

    def of_batch(self, batch: NewBatch, topic_bytes: int) -> list[int]:
        """Compute the bytes of each record. Raises ``MessageIllegal``."""
        shared = FIXED_BYTES + topic_bytes + len(batch.born_host) + len(batch.store_host)
        if topic_bytes > V1_TOPIC_BYTES_MAX:
            shared += 1
        body_max = self._max_message_bytes
        sizes = []
        for entry in batch.entries:
            body_bytes, properties_bytes = len(entry.body), len(entry.properties)
            if body_bytes > body_max or properties_bytes > MAX_PROPERTIES_BYTES:
                self._refuse_size(body_bytes, properties_bytes)
            sizes.append(shared + body_bytes + properties_bytes)
        return sizes

    def _refuse_size(self, body_bytes: int, properties_bytes: int) -> None:
        if body_bytes > self._max_message_bytes:
            raise MessageIllegal(
                f"a body of {body_bytes} bytes, at most {self._max_message_bytes} are taken"
            )
        if properties_bytes > MAX_PROPERTIES_BYTES:
            raise MessageIllegal(
                f"properties of {properties_bytes} bytes, at most {MAX_PROPERTIES_BYTES} fit"
            )
