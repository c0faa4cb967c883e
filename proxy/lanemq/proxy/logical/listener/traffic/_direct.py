"""Direct consumption (309) at a listener: the message may be at any broker."""

from lanemq.wire import RequestCode
from lanemq.wire.headers import ConsumeMessageDirectly

from ....net._dispatch import Handlers, typed
from ..port._context import ListenerContext
from ._messages import Messages


def register(handlers: Handlers, listener: ListenerContext, messages: Messages) -> None:
    """Register request 309."""
    consume = listener.host.consume_directly(listener.queues.broker_name, messages.record)
    handlers.add(RequestCode.CONSUME_MESSAGE_DIRECTLY, typed(ConsumeMessageDirectly, consume))
