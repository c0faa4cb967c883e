"""Requests and answers about one part of a moved queue, translated. All pure."""

from collections.abc import Collection
from typing import Final, NamedTuple

from msgspec.structs import replace

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import PullMessageResponse

from ..order import BROKER_FIELDS, FIELDS, SENDS, MovedQueue, SeenQueue
from ..rewrites import with_fields, with_tags
from ._records import is_stored_elsewhere, offset_of, seen_records

Code = RequestCode
STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
"""Answers that say where a message is stored."""
SUGGESTED, NEXT, LEAST, MOST = PullMessageResponse(0, 0, 0, 0).to_fields()
"""The fields of answers to pulls."""
COMMIT_FLAG: Final = 0x1


class Note(NamedTuple):
    """A request as it is remembered until its answer comes."""

    frame: Frame
    """The request with what its answer needs: clients can write any number of fields."""
    topic: str
    seen: SeenQueue
    place: tuple[str, int]
    """The first part of the queue."""
    part: int
    """The number of the part that was asked."""
    offset: int
    """The part's own offset from which a pull asks; -1 for a send."""
    is_plain: bool
    """False for a send of what the broker keeps elsewhere at first."""


def _bare(frame: Frame) -> Frame:
    """Return what is remembered of a request: no body, and no member that a client has chosen."""
    return Frame(frame.code, frame.opaque, frame.flag, serialize=frame.serialize)


def queue_of(frame: Frame) -> tuple[str, int]:
    """Return the topic and the number of the queue that a request names; -1 for none."""
    topic_field, id_field = FIELDS[frame.code]
    text = frame.fields.get(id_field, "")
    try:
        return frame.fields.get(topic_field, ""), int(text[:11])
    except ValueError:
        return frame.fields.get(topic_field, ""), -1


def at_part(frame: Frame, moved: MovedQueue, part: int) -> Frame:
    """Return a request that names a part in place of the queue."""
    broker, queue_id = moved.parts[part].place
    fields = {FIELDS[frame.code][1]: str(queue_id)}
    names = [one for one in BROKER_FIELDS if one in frame.fields and _names(frame, one)]
    fields |= dict.fromkeys(names, broker)
    return with_fields(frame, fields)


def _names(frame: Frame, name: str) -> bool:
    """Return whether a field has a broker's name: one letter has other meanings in some headers."""
    return name != "n" or (frame.code in SENDS and frame.code != Code.SEND_MESSAGE)


def note_of_send(frame: Frame, topic: str, seen: SeenQueue, moved: MovedQueue) -> Note:
    """Return what is remembered of a send."""
    long = frame.code == Code.SEND_MESSAGE
    flag = frame.fields.get("sysFlag" if long else "f", "0")
    properties = frame.fields.get("properties" if long else "i", "")
    return Note(
        _bare(frame),
        topic,
        seen,
        moved.place,
        len(moved.parts) - 1,
        -1,
        is_plain=not is_stored_elsewhere(flag, properties),
    )


def pull_at_part(
    frame: Frame, topic: str, seen: SeenQueue, moved: MovedQueue
) -> tuple[Frame, Note]:
    """Return a pull of a part, and what is remembered of it. Raises ``RemoteProtocolError``."""
    offset = offset_of(frame.fields.get("queueOffset"))
    part = moved.part_at(offset)
    own = offset - moved.begins[part]
    fields = {"queueOffset": str(own)}
    end = moved.parts[part].read_end
    most = frame.fields.get("maxMsgNums", "")
    if end >= 0 and most.isdecimal():
        fields["maxMsgNums"] = str(max(1, min(int(most[:9]), end - own)))
    flag = frame.fields.get("sysFlag", "")
    if flag.isdecimal():
        fields["sysFlag"] = str(int(flag[:9]) & ~COMMIT_FLAG)
    note = Note(_bare(frame), topic, seen, moved.place, part, own, is_plain=True)
    return at_part(with_fields(frame, fields), moved, part), note


def commit_of_pull(frame: Frame, topic: str, seen: SeenQueue) -> Frame | None:
    """Return the commit that comes with a pull, as a request of its own; None without one."""
    flag = frame.fields.get("sysFlag", "")
    offset = frame.fields.get("commitOffset", "")
    if not flag.isdecimal() or not int(flag[:9]) & COMMIT_FLAG or not offset.isdecimal():
        return None
    fields = {
        "consumerGroup": frame.fields.get("consumerGroup", ""),
        "topic": topic,
        "queueId": str(seen.queue_id),
        "commitOffset": offset,
    }
    return replace(frame, code=Code.UPDATE_CONSUMER_OFFSET, fields=fields, body=b"")


def commits_at_parts(
    frame: Frame, moved: MovedQueue, gone: Collection[int] = ()
) -> list[tuple[int, Frame]]:
    """Return a commit as parts get it: the one with the message before the offset, or the first
    behind that is not ``gone``, and those behind it, which have nothing read then.

    Raises ``RemoteProtocolError``.
    """
    offset = offset_of(frame.fields.get("commitOffset"))
    part = living_from(moved.part_before(offset), gone)
    own = {"commitOffset": str(max(0, offset - moved.begins[part]))}
    found = [(part, at_part(with_fields(frame, own), moved, part))]
    nothing = with_fields(frame, {"commitOffset": "0"})
    later = (at for at in range(part + 1, len(moved.parts)) if at not in gone)
    found += ((at, at_part(nothing, moved, at)) for at in later)
    return found


def part_to_read(note: Note, moved: MovedQueue, gone: Collection[int]) -> int:
    """Return the part at which a pull goes on: its own, or the first behind that is not ``gone``
    where that one is, or its broker has lost what is asked for."""
    end = moved.parts[note.part].read_end
    return living_from(note.part + (0 <= end <= note.offset), gone)


def living_from(part: int, gone: Collection[int]) -> int:
    """Return the first part from one on that is not gone; the last one never is."""
    while part in gone:
        part += 1
    return part


def beyond(frame: Frame, moved: MovedQueue, part: int) -> Frame:
    """Return the answer to a pull on which clients ask at once from the begin of a part on."""
    return _answer(frame, ResponseCode.PULL_RETRY_IMMEDIATELY, str(moved.begins[part]))


def again(note: Note, moved: MovedQueue, own: int) -> Frame:
    """Return the answer to a pull on which clients ask at once from a part's own offset on."""
    return _pulled(note, ResponseCode.PULL_RETRY_IMMEDIATELY, moved.begins[note.part] + own)


def nothing_yet(frame: Frame) -> Frame:
    """Return the answer to a pull of a queue whose end is just being read."""
    offset = frame.fields.get("queueOffset", "0")
    return _answer(frame, ResponseCode.PULL_NOT_FOUND, offset)


def _pulled(note: Note, code: int, offset: int) -> Frame:
    return _answer(note.frame, code, str(offset))


def _answer(frame: Frame, code: int, offset: str) -> Frame:
    fields = {
        SUGGESTED: "0",
        NEXT: offset,
        LEAST: "0",
        MOST: offset,
    }
    return replace(frame.reply(code), fields=fields)


def seen_pull(note: Note, moved: MovedQueue, answer: Frame, tag: int) -> Frame:
    """Return the answer of a part to a pull, in the numbers of clients.

    Raises ``RemoteProtocolError`` for one that cannot be read.
    """
    begin, end = moved.begins[note.part], moved.parts[note.part].read_end
    if NEXT not in answer.fields:
        return answer  # a refusal
    own_next = offset_of(answer.fields[NEXT])
    code, body = answer.code, b""
    if code == ResponseCode.SUCCESS:
        seen_id = note.seen.queue_id
        cut = seen_records(answer.body, lambda _, at: (seen_id, at + begin), tag, end)
        body = cut.records
        own_next = own_next if cut.following is None else min(own_next, cut.following)
        if not body:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
    if end >= 0:
        own_next = min(own_next, end)
        if note.offset >= end or own_next > note.offset:
            code = code if body else ResponseCode.PULL_RETRY_IMMEDIATELY
            is_read = note.offset >= end
            own_next = moved.parts[note.part].end if is_read else max(own_next, note.offset)
        elif not body:
            # The broker has lost what was there: nobody may go past it unseen.
            code, own_next = ResponseCode.PULL_NOT_FOUND, note.offset
    elif code == ResponseCode.PULL_OFFSET_MOVED and own_next > note.offset:
        code = ResponseCode.PULL_RETRY_IMMEDIATELY
    least, most = (offset_of(answer.fields.get(name, "0")) for name in (LEAST, MOST))
    fields = {
        **answer.fields,
        SUGGESTED: "0",
        NEXT: str(begin + own_next),
        LEAST: str(begin + least if note.part else least),
        MOST: str(begin + most if end < 0 else max(moved.begins[-1], begin + own_next)),
    }
    return replace(answer, code=code, fields=fields, body=body)


def is_behind(note: Note, moved: MovedQueue, answer: Frame) -> bool:
    """Return whether a message was stored behind the end of its part, where nobody reads it."""
    end = moved.parts[note.part].read_end
    count = answer.fields.get("msgId", "").count(",") + 1
    return 0 <= end < offset_of(answer.fields.get("queueOffset")) + count


def seen_send(note: Note, moved: MovedQueue, answer: Frame, tag: int) -> Frame:
    """Return the answer of a part to a send, in the numbers of clients. Raises as ``seen_pull``."""
    fields = {"queueId": str(note.seen.queue_id)}
    if note.is_plain:
        offset = offset_of(answer.fields.get("queueOffset")) + moved.begins[note.part]
        fields["queueOffset"] = str(offset)
    given = answer.fields.get("msgId")
    if given and tag:
        fields["msgId"] = with_tags(given, tag)
    return with_fields(answer, fields)
