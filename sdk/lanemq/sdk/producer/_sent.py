"""Reading the answer to a send."""

from typing import Final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.headers import SendMessageResponse

from .._errors import BadAnswer
from .._messages import SendResult, SendStatus
from ._outgoing import Outgoing

STATUSES: Final = {status.value: status for status in SendStatus}
"""Response codes of sends that are stored, and what each says."""


def read_sent(outgoing: Outgoing, answer: Frame, queue: MessageQueue, address: str) -> SendResult:
    """Return the result of a send that the broker at ``address`` has stored.

    Raises ``BadAnswer`` where a field is missing or no number.
    """
    try:
        header = SendMessageResponse.from_fields(answer.fields)
    except RemoteProtocolError as error:
        raise BadAnswer(address, "a send", str(error)) from error
    if header.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status=STATUSES[answer.code],
        message_id=outgoing.message_id,
        offset_id=header.msg_id,
        queue=queue,
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region=header.msg_region,
        trace_on=header.trace_on is not False,
        recall_handle=header.recall_handle,
    )
