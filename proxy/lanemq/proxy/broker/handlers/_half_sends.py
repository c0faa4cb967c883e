"""The quick way of half messages, whose transactions are going to end soon."""

from collections.abc import Callable

from lanemq.storage import NewMessage, Put
from lanemq.wire import SysFlag, SystemTopic

from .._config import BrokerConfig
from ..state._recent_halves import Half, RecentHalves
from ..state._topics import Topics
from ._writer import Writer

HalfSend = Callable[[NewMessage], Put | None]
"""Appends a message that has nothing but a transaction.

Returns None, with nothing done, for one that has to be looked at more closely. Raises ``Refused``
and ``SegmentClosed``.
"""


def half_sends(
    *, config: BrokerConfig, recent: RecentHalves, topics: Topics, writer: Writer
) -> HalfSend:
    """Make the quick way of half messages into the store of one broker."""
    ensure, append, keep = topics.ensure, writer.append_half, recent.keep

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
