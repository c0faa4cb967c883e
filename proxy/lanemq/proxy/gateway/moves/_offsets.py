"""Requests about the offsets of a moved queue, which the proxy answers by what the parts say."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request

from ..order import MovedQueue
from ._numbers import at_part
from ._records import offset_of

Code = RequestCode
ASK_S: Final = 2.5
"""Seconds that a part has to answer: clients wait for three."""
FOUND: Final = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
_OF_SEARCHES: Final = frozenset({"timestamp", "boundaryType"})
Parts = Sequence[int]


class Ask(Protocol):
    """Asks a part, by its number, what was asked of the queue, or for its least offset."""

    def __call__(self, part: int, *, is_least: bool = False) -> Awaitable[Frame]: ...


async def answered(
    client: RemotingClient,
    frame: Frame,
    moved: MovedQueue,
    address: Callable[[str], str],
    gone: Collection[int] = (),
) -> Frame:
    """Return the answer to a request, by the parts that are not ``gone``.

    Raises ``Refused``, ``RemoteProtocolError``.
    """
    parts = [part for part in range(len(moved.parts)) if part not in gone]

    async def ask(part: int, *, is_least: bool = False) -> Frame:
        own, at = at_part(frame, moved, part), address(moved.parts[part].broker)
        if not at:
            remark = (
                f"broker {moved.parts[part].broker}, which has a part of the queue, is not there"
            )
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        fields, code = dict(own.fields), RequestCode(frame.code)
        if is_least:
            code = Code.GET_MIN_OFFSET
            fields = {name: text for name, text in fields.items() if name not in _OF_SEARCHES}
        asked = request(code, fields)
        return await client.call(at, asked, ASK_S, accept=FOUND)

    try:
        return await ANSWERED_BY_PROXY[RequestCode(frame.code)](frame, moved, parts, ask)
    except RefusedByBroker as error:
        raise Refused(error.code, error.remark or "") from error
    except LanemqError as error:
        remark = f"a broker that has a part of the queue does not answer: {error}"
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error


async def _progress(frame: Frame, moved: MovedQueue, parts: Parts, ask: Ask) -> Frame:
    """The last part with progress counts; at the first one the broker's answer does.

    Progress behind the end of a part, of who went direct or read on while it was fixed, is at the
    end: what is there was sent again to the next part.
    """
    first = parts[0]
    for part in reversed(parts[1:]):
        answer = await ask(part)
        if answer.code == ResponseCode.SUCCESS and (own := _offset(answer)) > 0:
            return _told(frame, _seen(moved, part, own))
    answer = await ask(first)
    if answer.code != ResponseCode.SUCCESS:
        return frame.reply(answer.code, remark=answer.remark or "")
    return _told(frame, _seen(moved, first, _offset(answer)))


async def _max(frame: Frame, moved: MovedQueue, parts: Parts, ask: Ask) -> Frame:
    return _told(frame, moved.begins[-1] + _offset(await ask(len(moved.parts) - 1)))


async def _min(frame: Frame, moved: MovedQueue, parts: Parts, ask: Ask) -> Frame:
    """The first part that still has a message counts."""
    for part in parts:
        own, one = max(0, _offset(await ask(part))), moved.parts[part]
        if one.end < 0 or own < one.read_end:
            return _told(frame, moved.begins[part] + own)
    raise AssertionError("the last part is open")


async def _by_time(frame: Frame, moved: MovedQueue, parts: Parts, ask: Ask) -> Frame:
    """The last part that has messages from before the time counts.

    Brokers answer with the first offset that they still have, or 0, where all messages are of the
    time or later; a part that has none left says nothing.
    """
    found = 0
    for part in reversed(parts):
        own, end = max(0, _offset(await ask(part))), moved.parts[part].read_end
        least = max(0, _offset(await ask(part, is_least=True))) if own or end >= 0 else 0
        if end >= 0 and least >= end:
            continue
        if 0 <= end <= own:
            break  # all of them are from before the time: the first one later is at the next part
        found = moved.begins[part] + max(own, least)
        if own > least:
            break
    return _told(frame, found)


def _offset(answer: Frame) -> int:
    return offset_of(answer.fields.get("offset"))


def _seen(moved: MovedQueue, part: int, own: int) -> int:
    """Return a part's own offset as clients see it, no further than its end."""
    end = moved.parts[part].end
    return moved.begins[part] + (own if end < 0 else min(own, end))


def _told(frame: Frame, offset: int) -> Frame:
    return frame.reply(fields={"offset": str(offset)})


ANSWERED_BY_PROXY: Final = {
    Code.QUERY_CONSUMER_OFFSET: _progress,
    Code.GET_MAX_OFFSET: _max,
    Code.GET_MIN_OFFSET: _min,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _by_time,
}
"""Requests -> what answers them."""
