"""The number a queue keeps beside a message's position, by which pulls are filtered."""

from typing import Final, final

from lanemq.wire import Property, SystemTopic, get_property, tags_code

TAGS: Final = Property.TAGS.encode()
DELAY: Final = Property.DELAY.encode()
UNKNOWN_LEVEL_DELAY_MS: Final = 1000
REMEMBERED_TAGS = 4096


@final
class TagsCodes:
    """Computes tags codes, and remembers those of recent tags."""

    def __init__(self, delays_ms: tuple[int, ...]) -> None:
        self._delays_ms = delays_ms
        self._codes: dict[bytes | None, int] = {None: 0}

    def code(self, topic: str, properties: bytes, store_timestamp_ms: int) -> int:
        """The hash of the tags; in the schedule topic, the time of delivery.

        Source: RocketMQ 4.9.8, CommitLog.checkMessageAndReturnSize.
        """
        if topic == SystemTopic.SCHEDULE:
            delay = get_property(properties, DELAY)
            if delay is not None and delay.isdigit() and int(delay) > 0:
                return store_timestamp_ms + self._delay_ms(int(delay))
        tags = get_property(properties, TAGS)
        code = self._codes.get(tags)
        if code is None:
            assert tags is not None
            if len(self._codes) > REMEMBERED_TAGS:
                self._codes = {None: 0}
            code = self._codes[tags] = tags_code(tags.decode("utf-8", "replace"))
        return code

    def _delay_ms(self, level: int) -> int:
        if not self._delays_ms:
            return UNKNOWN_LEVEL_DELAY_MS
        return self._delays_ms[min(level, len(self._delays_ms)) - 1]
