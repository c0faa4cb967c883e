"""The quick way of half messages, whose transactions are going to end soon."""

from collections.abc import Callable

from lanemq.storage import NewMessage, Put
from lanemq.wire import SysFlag, SystemTopic

from .._context import BrokerContext
from ..state._recent_halves import Half

HalfSend = Callable[[NewMessage], Put | None]
"""Appends a message that has nothing but a transaction.

Returns None, with nothing done, for one that has to be looked at more closely. Raises ``Refused``
and ``SegmentClosed``.
"""


def half_sends(broker: BrokerContext) -> HalfSend:
    """Make the quick way of half messages into the store of one broker."""
    config, ensure = broker.config, broker.topics.ensure
    append, keep = broker.writer.append_half, broker.recent_halves.keep

    def store(message: NewMessage) -> Put | None:
        if config.reject_transaction_message or (
            message.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_COMMIT
        ):
            return None
        ensure(SystemTopic.TRANSACTION_HALF, queues=1)
        put, half = append(message)
        keep(Half(put, half, message.topic, message.queue_id))
        return put

    return store
