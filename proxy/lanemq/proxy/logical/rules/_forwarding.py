"""Forwarding of sends to the broker that takes them, for clients that know no redirects.

Source: RocketMQ 5.0.0-PREVIEW, AbstractSendMessageProcessor (logicalQueueHookForward), which
answers twice, names the wrong field and lets answers meet each other's requests.
"""

from collections.abc import Mapping
from typing import Final

from lanemq.wire import HostAddress, ProtocolError, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.logical import (
    FORWARD_QUEUE_ID_FIELD,
    LOGICAL_QUEUE_FLAG,
    NOT_SET,
    SEGMENT_FIELD,
    Segment,
    translate,
)
from lanemq.wire.message import Property, decode_properties

HOPS_FIELD: Final = "lanemqHops"
"""Ext field of a forwarded send: the number of hops."""
HOPS_MAX: Final = 2

BORN_HOST_FIELD: Final = "lanemqBornHost"
"""Ext field of a forwarded send: the address of its sender, packed, in hex digits."""

ORIGIN_ID_FIELD: Final = "lanemqOriginId"
"""Ext field of a send-back from a logical listener: the offset id that the consumer knows."""

LETTER_CODES: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
"""Codes of requests whose header has letters for names."""


def queue_field(code: int) -> str:
    """Return the ext field of a send that has the queue id."""
    return "e" if code in LETTER_CODES else "queueId"


def flags_field(code: int) -> str:
    """Return the ext field of a send that has the ``sysFlag``."""
    return "f" if code in LETTER_CODES else "sysFlag"


def is_half(frame: Frame) -> bool:
    """Return whether a send brings a half message: it is not forwarded, since its end goes to
    the broker that its sender knows."""
    text = frame.fields.get("i" if frame.code in LETTER_CODES else "properties", "")
    return decode_properties(text).get(Property.TRAN_MSG, "").lower() == "true"


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
    sys_flag = int(frame.fields[flags_field(code)]) | LOGICAL_QUEUE_FLAG
    fields = frame.fields | {
        queue_field(code): str(target.queue_id),
        flags_field(code): str(sys_flag),
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
    if "queueId" in fields:
        fields[FORWARD_QUEUE_ID_FIELD] = fields["queueId"]
        offset = translate.as_if_at(addressed, target, stored_offset(fields))
        fields |= {"queueId": str(addressed.queue_id), "queueOffset": str(offset)}
    return asked.reply(answer.code, fields, answer.body, answer.remark)


def stored_offset(fields: Mapping[str, str]) -> int:
    """Return the physical offset in the answer to a send; -1 where it tells none."""
    told = fields.get("queueOffset", "")
    return int(told) if told.isdecimal() else NOT_SET
