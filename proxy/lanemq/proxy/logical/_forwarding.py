"""Sends that are passed on to the broker that takes them, for clients that know no redirects.

Source: RocketMQ 5.0.0-PREVIEW, AbstractSendMessageProcessor (logicalQueueHookForward), which
answers twice, names the wrong field and lets answers meet each other's requests.
"""

from typing import Final

from lanemq.wire import (
    Frame,
    HostAddress,
    ProtocolError,
    Refused,
    RequestCode,
    ResponseCode,
    request,
)
from lanemq.wire.logical import (
    FORWARD_QUEUE_ID_FIELD,
    LOGICAL_QUEUE_FLAG,
    SEGMENT_FIELD,
    Segment,
)

HOPS_FIELD: Final = "lanemqHops"
"""Ext field of a send that was passed on: how often."""
HOPS_MAX: Final = 2

BORN_HOST_FIELD: Final = "lanemqBornHost"
"""Ext field of a send that was passed on: the address of its sender, packed, in hex digits."""

ORIGIN_ID_FIELD: Final = "lanemqOriginId"
"""Ext field of a send-back from a logical listener: the offset id that the consumer knows."""

LETTER_CODES: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
"""Requests whose header has letters for names."""


def queue_field(code: int) -> str:
    """The ext field of a send that has the queue id."""
    return "e" if code in LETTER_CODES else "queueId"


def flags_field(code: int) -> str:
    """The ext field of a send that has the ``sysFlag``."""
    return "f" if code in LETTER_CODES else "sysFlag"


def hops_of(frame: Frame) -> int:
    """How often a send was passed on; a number that is none counts as too often."""
    text = frame.fields.get(HOPS_FIELD, "0")
    return int(text) if text.isdecimal() else HOPS_MAX


def born_host_of(frame: Frame, peer: HostAddress) -> bytes:
    """The packed address of a message's sender: the peer, or whoever that had it from.

    What is no address is passed over.
    """
    given = frame.fields.get(BORN_HOST_FIELD)
    if given is None:
        return peer.packed
    try:
        return HostAddress.unpack(bytes.fromhex(given)).packed
    except (ProtocolError, ValueError):
        return peer.packed


def forwarded(frame: Frame, target: Segment, peer: HostAddress) -> Frame:
    """A new request for ``target`` with the message of ``frame``, which came from ``peer``.

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
    """The answer to ``asked`` from that of the broker of ``target``.

    It names the queue that the client knows, and an offset on that queue's scale.
    """
    fields = dict(answer.fields)
    if "queueId" in fields:
        fields[FORWARD_QUEUE_ID_FIELD] = fields["queueId"]
        fields["queueId"] = str(addressed.queue_id)
        fields["queueOffset"] = str(_on_scale(fields.get("queueOffset", ""), addressed, target))
    return asked.reply(answer.code, fields, answer.body, answer.remark)


def _on_scale(text: str, addressed: Segment, target: Segment) -> int:
    """The offset on ``addressed`` of a message at an offset on ``target``; -1 if not known."""
    offset = int(text) if text.isdecimal() else -1
    if offset < 0 or addressed.delta < 0 or target.delta < 0:
        return -1
    return addressed.to_physical(target.to_logical(offset))
