"""Pulls at the broker of a segment, and the parts of its answers."""

import trio
from msgspec.structs import replace

from lanemq.wire import PullSysFlag, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import NOTHING_READABLE_S, Chain, Located, translate
from lanemq.wire.logical.translate import Numbers

from ....net._stored_reply import LARGE_BYTES
from ....sessions.values._pull_request import PullRequest
from ....sessions.values._results import PULL_FIELDS, NotFound

_NEXT, _MIN, _MAX = PULL_FIELDS[1:]


async def nothing_yet(offset: int, chain: Chain, hold_s: float) -> NotFound:
    """Answer a pull that no broker can hold, after a part of the time for which it may wait.

    Clients ask again at once.
    """
    await trio.sleep(min(hold_s, NOTHING_READABLE_S))
    return NotFound(ResponseCode.PULL_NOT_FOUND, translate.nothing_at(offset, chain))


def placed(asked: PullRequest, located: Located) -> PullRequest:
    """Make the pull of a segment's queue at this process's broker."""
    return replace(
        asked,
        queue_id=located.segment.queue_id,
        offset=located.queue_offset,
        sys_flag=asked.sys_flag & ~PullSysFlag.COMMIT_OFFSET,
        commit_offset=None,
        is_aware=True,
        meant=located.segment.meant,
    )


def single(records: list[bytes]) -> bytes | None:
    """Return the only record, where it is a large one."""
    return records[0] if len(records) == 1 and len(records[0]) >= LARGE_BYTES else None


def numbers_of(answer: Frame) -> Numbers:
    """Read another broker's answer; a number that it does not tell is -1."""
    texts = (answer.fields.get(field, "") for field in (_NEXT, _MIN, _MAX))
    return Numbers(*(int(text) if text.isdecimal() else -1 for text in texts))
