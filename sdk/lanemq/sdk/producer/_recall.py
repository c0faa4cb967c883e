"""Messages with a timer are taken back before their time: RECALL_MESSAGE (370)."""

from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.frame import request
from lanemq.wire.headers import RecallMessage
from lanemq.wire.message import RecallHandle

from .._errors import MessageRejected
from .._namespace import in_namespace
from .._options import ProducerOptions
from ..net._client import Client


async def recall(
    client: Client, group: str, options: ProducerOptions, topic: str, recall_handle: str
) -> str:
    """Take a message back. Arguments, result and errors are those of ``Producer.recall``."""
    topic = in_namespace(options.client.namespace, topic)
    if recall_handle is None:
        raise MessageRejected(
            "there is no recall_handle: only a message with a timer (delay_s, deliver_at_ms) can "
            "be recalled, and its broker has to know timers"
        )
    try:
        handle = RecallHandle.decode(recall_handle)
    except RemoteProtocolError as error:
        raise MessageRejected(f"{error}: it is given by the result of a send") from error
    address = client.routes.master(handle.broker_name)
    if address is None:
        await client.routes.find_for_send(topic)
        address = client.routes.master(handle.broker_name)
    if address is None:
        raise MessageRejected(f"no route of {topic} has the broker {handle.broker_name}")
    header = RecallMessage(topic, recall_handle, group)
    frame = request(RequestCode.RECALL_MESSAGE, header.to_fields())
    await client.remoting.call(address, frame, options.send_timeout_s)
    return handle.message_id
