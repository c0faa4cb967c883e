"""Offsets of a moved queue, which the proxy tells from what the brokers of its parts say."""

from typing import Final, cast

import pytest

from lanemq.proxy.gateway.moves._offsets import answered
from lanemq.proxy.gateway.order import MovedQueue, Part
from lanemq.sdk import RefusedByBroker, RemotingClient
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request

Code = RequestCode
MOVED: Final = MovedQueue((Part("a", 0, 10), Part("b", 4, 20), Part("a", 1)))
FIRST: Final = "a0"
MIDDLE: Final = "b4"
LAST: Final = "a1"


class Brokers:
    """Answers by request, broker and queue; a queue without one has no progress."""

    def __init__(self, offsets: dict[tuple[Code, str], int]) -> None:
        self.offsets = offsets

    async def call(self, address: str, frame: Frame, _: float, *, accept: object = ()) -> Frame:
        code = Code(frame.code)
        if code != Code.SEARCH_OFFSET_BY_TIMESTAMP:
            assert not {"timestamp", "boundaryType"} & frame.fields.keys()
        found = self.offsets.get((code, address + frame.fields["queueId"]))
        if found is None and code == Code.QUERY_CONSUMER_OFFSET:
            return Frame(ResponseCode.QUERY_NOT_FOUND)
        if found is None:
            raise RefusedByBroker(ResponseCode.SYSTEM_ERROR, "asked too much", address)
        return Frame(0, fields={"offset": str(found)})


async def told(code: Code, offsets: dict[tuple[Code, str], int], gone: tuple[int, ...] = ()) -> int:
    fields = {"topic": "T", "queueId": "0", "consumerGroup": "g"}
    if code == Code.SEARCH_OFFSET_BY_TIMESTAMP:
        fields |= {"timestamp": "1", "boundaryType": "LOWER"}
    client = cast(RemotingClient, Brokers(offsets))
    answer = await answered(client, request(code, fields), MOVED, lambda one: one, gone)
    return int(answer.fields["offset"])


@pytest.mark.parametrize(
    ("by_time", "least", "found"),
    [
        pytest.param({LAST: 8}, {LAST: 5}, 38, id="the last part has some from before"),
        pytest.param(
            {LAST: 5, MIDDLE: 8}, {LAST: 5, MIDDLE: 6}, 18, id="of the last the begin is deleted"
        ),
        pytest.param(
            {LAST: 0, MIDDLE: 6, FIRST: 3}, {LAST: 0, MIDDLE: 6, FIRST: 2}, 3, id="the first has"
        ),
        pytest.param(
            {LAST: 5, MIDDLE: 20}, {LAST: 5, MIDDLE: 6}, 35, id="all of a part are from before"
        ),
        pytest.param(
            {LAST: 5, MIDDLE: 6, FIRST: 0},
            {LAST: 5, MIDDLE: 6, FIRST: 10},
            16,
            id="all of a part are deleted",
        ),
        pytest.param(
            {LAST: 0, MIDDLE: 0, FIRST: 0},
            {LAST: 0, MIDDLE: 6, FIRST: 2},
            2,
            id="the first one that is there",
        ),
    ],
)
async def test_a_search_by_time_finds_an_older_part_that_is_there(
    by_time: dict[str, int], least: dict[str, int], found: int
) -> None:
    offsets = {(Code.SEARCH_OFFSET_BY_TIMESTAMP, at): own for at, own in by_time.items()}
    offsets |= {(Code.GET_MIN_OFFSET, at): own for at, own in least.items()}
    assert await told(Code.SEARCH_OFFSET_BY_TIMESTAMP, offsets) == found


@pytest.mark.parametrize(
    ("progress", "gone", "found"),
    [
        pytest.param({LAST: 7, MIDDLE: 25}, (), 37, id="at the open part"),
        pytest.param({MIDDLE: 25, FIRST: 10}, (), 30, id="behind the end of a part"),
        pytest.param({MIDDLE: 20}, (), 30, id="at the end"),
        pytest.param({MIDDLE: 19, LAST: 0}, (), 29, id="before the end"),
        pytest.param({FIRST: 12}, (), 10, id="behind the end of the first part"),
        pytest.param({MIDDLE: 25}, (0,), 30, id="the first part is gone"),
    ],
)
async def test_progress_behind_the_end_of_a_part_is_at_the_end(
    progress: dict[str, int], gone: tuple[int, ...], found: int
) -> None:
    offsets = {(Code.QUERY_CONSUMER_OFFSET, at): own for at, own in progress.items()}
    assert await told(Code.QUERY_CONSUMER_OFFSET, offsets, gone) == found
