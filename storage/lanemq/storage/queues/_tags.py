"""Tags codes: the number that a queue keeps for each message, by which pulls are filtered."""

from collections.abc import Iterable, Sequence
from typing import Final, final

from lanemq.wire import SystemTopic, tags_code
from lanemq.wire.message import Property, get_property

TAGS: Final = Property.TAGS.encode()
TAGS_AT: Final = TAGS + b"\x01"
DELAY: Final = Property.DELAY.encode()
UNKNOWN_LEVEL_DELAY_MS: Final = 1000
REMEMBERED_TAGS: Final = 4096
REMEMBERED_BYTES: Final = 255
"""Longest tags to remember; longer ones are hashed again, so that peers cannot fill the memory."""


def delivery_delay_ms(delays_ms: Sequence[int], level: bytes | None) -> int | None:
    """Return the delay of a message in the schedule topic by its property ``DELAY``; None where
    that is not a level. ``delays_ms`` are those of levels 1, 2, and so on."""
    if level is None or not level.isdigit() or int(level) <= 0:
        return None
    if not delays_ms:
        return UNKNOWN_LEVEL_DELAY_MS
    return delays_ms[min(int(level), len(delays_ms)) - 1]


@final
class TagsCodes:
    """A calculator of tags codes that remembers those of recent tags."""

    def __init__(self, delays_ms: tuple[int, ...]) -> None:
        self._delays_ms = delays_ms
        self._codes: dict[bytes | None, int] = {None: 0}

    def code(self, topic: str, properties: bytes, store_timestamp_ms: int) -> int:
        """Return the hash of the tags; in the schedule topic, the time of delivery.

        Source: RocketMQ 4.9.8, CommitLog.checkMessageAndReturnSize.
        """
        if topic == SystemTopic.SCHEDULE:
            delay_ms = delivery_delay_ms(self._delays_ms, get_property(properties, DELAY))
            if delay_ms is not None:
                return store_timestamp_ms + delay_ms
        if TAGS_AT not in properties:
            return 0
        tags = get_property(properties, TAGS)
        code = self._codes.get(tags)  # here, for this is asked once for every message
        return self.of_tags(tags) if code is None else code

    def codes(self, topic: str, properties: Iterable[bytes], store_timestamp_ms: int) -> list[int]:
        """Return the ``code`` of each of some messages."""
        code = self.code
        if topic == SystemTopic.SCHEDULE:
            return [code(topic, one, store_timestamp_ms) for one in properties]
        return [code(topic, one, store_timestamp_ms) if TAGS_AT in one else 0 for one in properties]

    def of_tags(self, tags: bytes | None) -> int:
        """Return the hash of tags; 0 without any."""
        code = self._codes.get(tags)
        if code is None:
            assert tags is not None
            if len(self._codes) > REMEMBERED_TAGS:
                self._codes = {None: 0}
            code = tags_code(tags.decode("utf-8", "replace"))
            if len(tags) <= REMEMBERED_BYTES:
                self._codes[tags] = code
        return code
