"""What cleaning the log means for segments: first expired, much later forgotten.

Source: RocketMQ 5.0.0-PREVIEW, CleanFilesHook of BrokerController.
"""

import logging
from typing import final

import trio

from lanemq.wire import Refused

from ..logical import TopicMapping, expired, swept
from ._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")


@final
class LogicalRetention:
    """Follows the cleaning of one broker's log; ``run`` is its task."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._logical = broker.logical

    async def run(self) -> None:
        """Look whenever the log may have been cleaned, until cancelled."""
        await self._logical.in_use.wait()
        while True:
            await trio.sleep(self._broker.store.config.clean_interval_s)
            await self.look()

    async def look(self) -> None:
        """Expire what has lost its last message, and forget what is expired for long."""
        logical = self._logical
        for topic in list(logical.mappings):
            try:
                await logical.change(topic, self._changed)
            except Refused as error:
                LOGGER.error("%s: segments cannot be expired: %s", topic, error.remark)

    def _changed(self, mapping: TopicMapping) -> TopicMapping:
        logical = self._logical
        gone = expired(mapping, logical.is_removed)
        if gone:
            mapping = mapping.put(*gone)
            logical.note_expired(*gone)
            LOGGER.info("expired: %s", "; ".join(map(str, gone)))
        keep_ms = self._broker.config.logical_queue_expired_keep_millis
        keys = swept(mapping, logical.expired_ms, before_ms=self._broker.now_ms() - keep_ms)
        for key in keys:
            logical.expired_ms.pop(key, None)
            LOGGER.info("forgotten: %s", key)
        return mapping.without(*keys)
