"""Retention of logical-queue segments: they expire with the log and are forgotten a day later.

Source: RocketMQ 5.0.0-PREVIEW, CleanFilesHook of BrokerController.
"""

from typing import Self, final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.wire import Refused

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._retire import expired, swept
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ..state._state import LogicalState

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class LogicalRetention:
    """The retention of one broker's segments, which follows the cleaning of its log; ``run`` is its
    task."""

    _clean_interval_s: float
    _config: BrokerConfig
    _logical: LogicalState

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the retention of the segments of ``broker``."""
        return cls(
            clean_interval_s=broker.store.config.clean_interval_s,
            config=broker.config,
            logical=broker.logical,
        )

    async def run(self) -> None:
        """Check the segments whenever the log may have been cleaned, until cancelled."""
        await self._logical.in_use.wait()
        while True:
            await trio.sleep(self._clean_interval_s)
            await self.look()

    async def look(self) -> None:
        """Expire segments that lost their last message, and forget those expired for long."""
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
            LOGGER.info("expired: %s", "; ".join(map(str, gone)))
        keep_ms = self._config.logical_queue_expired_keep_millis
        keys = swept(mapping, logical.times.expired_before(keep_ms / 1000))
        for key in keys:
            LOGGER.info("forgotten: %s", key)
        return mapping.without(*keys)
