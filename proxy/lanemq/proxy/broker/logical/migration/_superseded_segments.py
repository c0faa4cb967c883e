"""Superseded segments: of two open ends of a logical queue the rightful one stays.

A segment is superseded by an operator's word while its broker is away. That broker comes back
with a segment that is as open as it was, and learns from the other one what became of it.
"""

from typing import final

from attrs import define

from lanemq.local import get_logger
from lanemq.wire import Refused
from lanemq.wire.logical import LogicalQueues, Segment

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._view import is_superseded, merged, superseded_end
from ..state._progress import LogicalProgress
from ..state._state import LogicalState
from ..state._view import LogicalView
from ._seal import Seals
from ._superseded_messages import SupersededMessages

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class SupersededSegments:
    """Closes own open segments whose logical queues continued at other brokers meanwhile."""

    _logical: LogicalState
    _logical_progress: LogicalProgress
    _seals: Seals
    _superseded: SupersededMessages
    _view: LogicalView

    async def close_if_superseded(self, own: Segment, rival: Segment) -> bool:
        """Close ``own`` if ``rival`` superseded it; False where that cannot be found out."""
        try:
            await self._close_superseded(own, rival)
        except Refused as error:
            LOGGER.info("%s does not say whether it took over: %s", rival, error.remark)
            return False
        return True

    async def _close_superseded(self, own: Segment, rival: Segment) -> None:
        """Close an own open segment, if another one of the same queue is the rightful one."""
        account = await self._view.chain_at(rival)
        logical, topic = self._logical, own.topic
        others = LogicalQueues.of(account)
        if not is_superseded(own, rival, account):
            # What was told of it is not so, or no longer: readers of the own segment go by it.
            is_known = account.find(rival.key) is not None

            def change(mapping: TopicMapping) -> TopicMapping:
                return merged(mapping if is_known else mapping.without(rival.key), others)

            await logical.change(topic, change)
            return
        async with (
            logical.operation(topic, own.logical_index, ("supersede", own.key)),
            self._seals.sealing(own) as sealed,
        ):
            end, _ = superseded_end(own, account, sealed.offset_max)
            if end != sealed.offset_max:
                taken, sealed = sealed.offset_max, self._seals.as_sealed(own, offset_max=end)
                await self._superseded.note(sealed, taken)
            await logical.change(topic, lambda mapping: merged(mapping.put(sealed), others))
            self._logical_progress.superseded(sealed)
        LOGGER.warning("%s continued at %s while this broker was away", sealed, rival)
