"""Direct consumption (309) at a listener: the message may be at any broker."""

from lanemq.wire import RequestCode
from lanemq.wire.headers import ConsumeMessageDirectly

from ....broker.admin._relay import DirectConsumption, Relay
from ....net._dispatch import Handlers, typed
from ..port._context import ListenerContext
from ._messages import Messages


def register(handlers: Handlers, listener: ListenerContext, messages: Messages) -> None:
    """Register request 309."""
    direct = DirectConsumption(
        broker_name=listener.queues.broker_name,
        record_at=messages.record,
        relay=Relay(clients=listener.broker.clients),
    )
    handlers.add(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, typed(ConsumeMessageDirectly, direct.consume)
    )
