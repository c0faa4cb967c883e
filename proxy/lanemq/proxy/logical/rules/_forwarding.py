"""Forwarding of sends to the broker that takes them, for clients that know no redirects.

Source: RocketMQ 5.0.0-PREVIEW, AbstractSendMessageProcessor (logicalQueueHookForward), which
answers twice, names the wrong field and lets answers meet each other's requests.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, final

from lanemq.wire import HostAddress, ProtocolError, Refused, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import SendMessage, SendMessageResponse
from lanemq.wire.logical import (
    BORN_HOST_FIELD,
    FORWARD_QUEUE_ID_FIELD,
    HOPS_FIELD,
    LOGICAL_QUEUE_FLAG,
    NOT_SET,
    SEGMENT_FIELD,
    Segment,
    translate,
)
from lanemq.wire.message import MAX_PROPERTIES_BYTES, Property, get_property
from lanemq.wire.requests import REQUESTS

HOPS_MAX: Final = 2


@final
class SendNames(NamedTuple):
    """Names of the ext fields of a send that are read or changed by themselves."""

    topic: str
    queue_id: str
    sys_flag: str
    born_timestamp: str
    flag: str
    properties: str
    reconsume_times: str
    batch: str


SEND_HEADERS: Final[Mapping[int, type[SendMessage]]] = {
    code: spec.header
    for code, spec in REQUESTS.items()
    if spec.header is not None and issubclass(spec.header, SendMessage)
}
"""Code of a send -> its header, with long names or with letters."""
SEND_NAMES: Final = {
    code: SendNames(*header.names(*SendNames._fields)) for code, header in SEND_HEADERS.items()
}
SENT_IDS, SENT_QUEUE_ID, SENT_QUEUE_OFFSET, SENT_RECALL_HANDLE = SendMessageResponse.names(
    "msg_id", "queue_id", "queue_offset", "recall_handle"
)
"""Ext fields of the answer to a send."""


def is_half(frame: Frame) -> bool:
    """Return whether a send brings a half message: it is not forwarded, since its end goes to
    the broker that its sender knows."""
    text = frame.fields.get(SEND_NAMES[frame.code].properties, "")
    if Property.TRAN_MSG not in text or len(text) > MAX_PROPERTIES_BYTES:
        return False  # no broker takes the longer ones
    value = get_property(text.encode("utf-8", "replace"), Property.TRAN_MSG.encode())
    return (value or b"").lower() == b"true"


def half_forbidden(host: str | None) -> Refused:
    """Return the refusal of a half message, in the reference's words."""
    remark = f"the broker[{host}] sending transaction message is forbidden"
    return Refused(ResponseCode.NO_PERMISSION, remark)


def hops_of(frame: Frame) -> int:
    """Return the number of hops of a send; an invalid one counts as too many."""
    text = frame.fields.get(HOPS_FIELD, "0")
    return int(text) if text.isdecimal() and len(text) == 1 else HOPS_MAX


def born_host_of(frame: Frame, peer: HostAddress) -> bytes:
    """Return the packed address of a message's sender: the peer, or the origin of a forwarded send.

    Texts that are not addresses are passed over.
    """
    given = frame.fields.get(BORN_HOST_FIELD)
    if given is None:
        return peer.packed
    try:
        return HostAddress.unpack(bytes.fromhex(given)).packed
    except (ProtocolError, ValueError):
        return peer.packed


def forwarded(frame: Frame, target: Segment, peer: HostAddress) -> Frame:
    """Make a request for ``target`` with the message of ``frame``, which came from ``peer``.

    It says that its sender follows redirects. Raises ``Refused`` where it went too far already.
    """
    hops = hops_of(frame) + 1
    if hops > HOPS_MAX:
        remark = f"the message was passed on {HOPS_MAX} times, and found no queue that takes it"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    code = frame.code
    sys_flag = int(frame.fields[SEND_NAMES[code].sys_flag]) | LOGICAL_QUEUE_FLAG
    changed = SEND_HEADERS[code].rewritten(
        frame.fields, queue_id=target.queue_id, sys_flag=sys_flag
    )
    fields = changed | {
        SEGMENT_FIELD: target.meant,
        BORN_HOST_FIELD: born_host_of(frame, peer).hex(),
        HOPS_FIELD: str(hops),
    }
    return request(code, fields, frame.body, oneway=frame.is_oneway)


def relayed(answer: Frame, asked: Frame, addressed: Segment, target: Segment) -> Frame:
    """Make the answer to ``asked`` from that of the broker of ``target``.

    It names the queue that the client knows, and an offset on that queue's scale.
    """
    fields = dict(answer.fields)
    if SENT_QUEUE_ID in fields:
        fields[FORWARD_QUEUE_ID_FIELD] = fields[SENT_QUEUE_ID]
        offset = translate.as_if_at(addressed, target, stored_offset(fields))
        fields |= {SENT_QUEUE_ID: str(addressed.queue_id), SENT_QUEUE_OFFSET: str(offset)}
    return asked.reply(answer.code, fields, answer.body, answer.remark)


def stored_offset(fields: Mapping[str, str]) -> int:
    """Return the physical offset in the answer to a send; -1 where it tells none."""
    told = fields.get(SENT_QUEUE_OFFSET, "")
    return int(told) if told.isdecimal() else NOT_SET
