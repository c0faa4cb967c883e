"""Description of an attempt to send, for hooks."""

from lanemq.wire import SysFlag
from lanemq.wire.bodies import MessageQueue

from .._messages import Message
from ..observe._send_hooks import SendAttempt, SendKind
from ._outgoing import Outgoing


def describe(
    group: str, outgoing: Outgoing, queue: MessageQueue, address: str, now_ms: int
) -> SendAttempt:
    """Describe an attempt that begins."""
    source = outgoing.source
    messages = (source,) if isinstance(source, Message) else tuple(source)
    kind = SendKind.NORMAL
    if outgoing.sys_flag & SysFlag.TRANSACTION_MASK:
        kind = SendKind.HALF
    elif any(message.is_delayed for message in messages):
        kind = SendKind.DELAYED
    return SendAttempt(
        group=group,
        messages=messages,
        message_ids=tuple(outgoing.message_id.split(",")),
        kind=kind,
        queue=queue,
        address=address,
        started_ms=now_ms,
    )
