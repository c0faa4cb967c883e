"""The request of a send for a segment's broker, and its answer as clients of a listener see it."""

from typing import Final

from msgspec.structs import replace

from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    BORN_HOST_FIELD,
    LOGICAL_QUEUE_FLAG,
    SEGMENT_FIELD,
    Segment,
    translate,
)

from ....net._answers import Answer
from ....net._session import Session
from ....sessions.values._results import Stored
from ...rules._forwarding import (
    SEND_HEADERS,
    SEND_NAMES,
    SENT_IDS,
    SENT_QUEUE_ID,
    SENT_QUEUE_OFFSET,
    SENT_RECALL_HANDLE,
    born_host_of,
    stored_offset,
)
from ...rules._positions import broker_tag, each_id, tagged
from ..port._records import SeenRecords

POSITION_DIGITS: Final = 16

Seen = Stored | Frame
"""The answer as clients of the listener see it; a frame comes from another broker."""


def addressed(frame: Frame, segment: Segment, session: Session) -> Frame:
    """Make the request for a segment's queue, as of a client that follows redirects."""
    fields, code = frame.fields, frame.code
    sys_flag = int(fields.get(SEND_NAMES[code].sys_flag, "0")) | LOGICAL_QUEUE_FLAG
    asked = {
        **SEND_HEADERS[code].rewritten(fields, queue_id=segment.queue_id, sys_flag=sys_flag),
        SEGMENT_FIELD: segment.meant,
        BORN_HOST_FIELD: born_host_of(frame, session.peer).hex(),
    }
    return replace(frame, fields=asked)


def seen(asked: Frame, answer: Answer, segment: Segment, records: SeenRecords) -> Seen:
    """Translate a broker's answer for the client of the listener."""
    # As the client named it: among how many brokers queues are divided may have changed since.
    queue_id = int(asked.fields[SEND_NAMES[asked.code].queue_id])
    if isinstance(answer, Stored):
        tag = broker_tag(segment.broker_name)
        return replace(
            answer,
            log_positions=[tagged(tag, position) for position in answer.log_positions],
            queue_id=queue_id,
            queue_offset=translate.stored_at(segment, answer.queue_offset),
            recall_handle=None,  # it names a broker that the client does not know
        )
    assert isinstance(answer, Frame), "sends are answered by their result or by a frame"
    fields = dict(answer.fields)
    fields.pop(SENT_RECALL_HANDLE, None)
    if SENT_QUEUE_ID in fields:
        offset = translate.stored_at(segment, stored_offset(fields))
        fields |= {SENT_QUEUE_ID: str(queue_id), SENT_QUEUE_OFFSET: str(offset)}
    if ids := fields.get(SENT_IDS):
        fields[SENT_IDS] = each_id(ids, lambda one: _tagged(one, segment, records))
    return asked.reply(answer.code, fields, answer.body, answer.remark)


def _tagged(offset_id: str, segment: Segment, records: SeenRecords) -> str:
    try:
        position = int(offset_id[-POSITION_DIGITS:], 16)
    except ValueError:
        return offset_id  # whatever it is, it is not a position
    return records.offset_id(segment.broker_name, position)
