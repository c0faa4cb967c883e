"""Due messages that cannot be delivered, kept for an operator.

One of them never keeps the others of its delay level waiting. Its properties still say where it
was to go (REAL_TOPIC, REAL_QID).
"""

from typing import final

from attrs import define
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.storage import NewMessage
from lanemq.wire import Permission, Refused, ResponseCode, SystemTopic

from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ._writer import Writer

LOGGER = get_logger("lanemq.proxy.broker.delay", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class Undelivered:
    """The store of messages that delayed delivery could not deliver."""

    _statistics: BrokerStatistics
    _topics: Topics
    _writer: Writer

    def keep(self, message: NewMessage, why: object) -> int:
        """Append the message to ``SystemTopic.UNDELIVERED``; returns the position behind it.

        Raises ``Refused`` (not MESSAGE_ILLEGAL) while the store takes none.
        """
        self._topics.ensure(SystemTopic.UNDELIVERED, queues=1, perm=Permission.READ)
        aside = replace(message, topic=SystemTopic.UNDELIVERED, queue_id=0, was_taken=True)
        try:
            end = self._writer.append(aside).end
        except Refused as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            self.lost(f"a message for {message.topic}", f"{why}; {error.remark}")
            return 0
        self._statistics.undelivered += 1
        LOGGER.error(
            "a message for %s, queue %d, cannot be delivered: %s; it is in %s now",
            message.topic,
            message.queue_id,
            why,
            SystemTopic.UNDELIVERED,
        )
        return end

    def lost(self, what: str, why: object) -> None:
        """Count and log a message that cannot even be written: it stays in its delay queue."""
        self._statistics.undelivered += 1
        LOGGER.error("%s cannot be delivered, and is passed over: %s", what, why)
