"""UPDATE_AND_CREATE_STATIC_TOPIC (513): refused, with the way to logical queues.

Static topics are the successor of logical queues in RocketMQ 5.x. lanemq has logical queues, as
5.0.0-PREVIEW had them; their mappings, requests and offsets are others.
"""

from typing import Final

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame

from ...net._dispatch import Handlers
from ...net._session import Session
from ..context._context import BrokerContext

REMARK: Final = (
    "static topics of RocketMQ 5.x are not supported by this broker, a lanemq: a topic whose "
    "queues outlive brokers has logical queues here, as updateTopic -lq true makes them"
)


def refuse(frame: Frame, session: Session) -> Frame:
    """Refuse to create or change a static topic."""
    raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, REMARK)


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register request 513."""
    handlers.add(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, refuse)
