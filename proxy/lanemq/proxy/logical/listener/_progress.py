"""Groups' progress in logical queues, which the broker that the queue ends on keeps.

No listener keeps any of it, so any of them can take another's place. Offsets are logical and
stay valid wherever the queue moves (see ``lanemq.wire.logical.progress_topic`` for the key).
"""

from contextlib import suppress
from typing import Final, final

import trio

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import QueryConsumerOffset, UpdateConsumerOffset
from lanemq.wire.logical import KEPT_FIELD, Segment, progress_topic
from lanemq.wire.message import is_stage_group

from ...net._session import Session
from ._brokers import Unreachable
from ._context import ListenerContext
from ._routes import TopicView

QUEUED_MAX: Final = 10_000
"""Most commits without an answer that wait for their turn; beyond it the oldest are dropped."""

_NOT_THERE: Final = ResponseCode.QUERY_NOT_FOUND

Commit = tuple[str, str, int]
"""Group, topic, index."""


@final
class Progress:
    """Reads and writes of progress. Methods that wait may raise ``Refused``."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener
        self._soon: dict[Commit, tuple[int, Session]] = {}
        self._wake = trio.Event()

    # Writing

    async def commit(
        self, group: str, topic: str, index: int, offset: int, session: Session
    ) -> None:
        """Keep a logical offset as given, backwards too."""
        view, chain = await self._listener.chain(topic, index)
        refusal: Refused | None = None
        for segment in reversed(chain.placed):
            header = UpdateConsumerOffset(
                group, progress_topic(topic, segment.delta), index, offset
            )
            frame = request(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())
            try:
                answer = await self._listener.ask(view, segment.broker_name, frame, session)
            except Unreachable as error:
                refusal = error
                continue
            if answer.code != ResponseCode.SUCCESS:
                raise Refused(answer.code, answer.remark or "")
            return
        raise refusal or Refused(ResponseCode.SYSTEM_ERROR, f"{topic}/{index} is on no broker")

    async def put_everywhere(
        self, group: str, topic: str, index: int, offset: int, session: Session
    ) -> None:
        """Keep an offset with the broker of every segment that answers."""
        view, chain = await self._listener.chain(topic, index)
        for segment in chain.placed:
            name = progress_topic(topic, segment.delta)
            header = UpdateConsumerOffset(group, name, index, offset)
            frame = request(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())
            with suppress(Refused):
                await self._listener.ask(view, segment.broker_name, frame, session)

    def commit_soon(
        self, group: str, topic: str, index: int, offset: int, session: Session
    ) -> None:
        """Schedule a ``commit`` without waiting; a later one for the same queue takes its place.

        If the broker of this process keeps the offset, that happens at once.
        """
        key = group, topic, index
        listener = self._listener
        chain = listener.routes.chain(topic, index)
        # Not Chain.last: ``commit`` and ``find`` begin with the last segment that has a place,
        # expired or not, and while a destination behind it has none, ``commit`` asks its broker.
        last = chain[-1] if chain else None
        if last is not None and last.delta >= 0 and listener.brokers.is_own(last.broker_name):
            self._soon.pop(key, None)
            progress = progress_topic(topic, last.delta)
            listener.broker.commit_offset(group, progress, index, offset)
            return
        if key not in self._soon and len(self._soon) >= QUEUED_MAX:
            del self._soon[next(iter(self._soon))]
        self._soon[key] = offset, session
        self._wake.set()

    async def run(self) -> None:
        """Write the commits of ``commit_soon``, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._soon:
                key = next(iter(self._soon))
                offset, session = self._soon.pop(key)
                try:
                    await self.commit(*key, offset, session)
                except Refused:
                    continue  # as an Apache broker does: the next commit has it again

    # Reading

    async def find(self, group: str, topic: str, index: int, session: Session) -> int | None:
        """Find the offset at which a group goes on; None if it never committed.

        A group that has read the physical queue before it became this logical one goes on where
        it was: at that moment the offsets are the same.
        """
        view, chain = await self._listener.chain(topic, index)
        zero: int | None = None
        for segment in reversed(chain.placed):
            key = progress_topic(topic, segment.delta)
            try:
                answer = await self._ask(view, segment, group, key, index, session)
            except Unreachable:
                if segment.is_readable or segment.is_writable:
                    raise  # its offset may be the latest: any other could lose messages
                continue
            offset = _offset_in(answer)
            if answer is not None and (offset or KEPT_FIELD in answer.fields):
                if offset is None or is_stage_group(group):
                    return offset
                return segment.clamp_progress(offset)  # its broker may not know yet of the end
            zero = offset if zero is None else zero
        return zero

    async def before_mapping(
        self, group: str, topic: str, index: int, session: Session, *, zero_if_young: bool
    ) -> int | None:
        """Return the group's offset in the physical queue that the logical one began as.

        With ``zero_if_young`` that broker's rule for a group without one: 0 in a young queue.
        """
        view, chain = await self._listener.chain(topic, index)
        first = chain.origin
        if first is None:
            return None
        try:
            answer = await self._ask(
                view, first, group, topic, first.queue_id, session, zero_if_young=zero_if_young
            )
        except Unreachable:
            return None
        offset = _offset_in(answer)
        return None if offset is None else first.clamp_max(offset)

    async def _ask(
        self,
        view: TopicView,
        segment: Segment,
        group: str,
        topic: str,
        queue_id: int,
        session: Session,
        *,
        zero_if_young: bool = False,
    ) -> Frame | None:
        """Ask a broker for an offset; None where it has none."""
        header = QueryConsumerOffset(
            group, topic, queue_id, set_zero_if_not_found=None if zero_if_young else False
        )
        frame = request(RequestCode.QUERY_CONSUMER_OFFSET, header.to_fields())
        try:
            answer = await self._listener.ask(view, segment.broker_name, frame, session)
        except Unreachable:
            raise
        except Refused as refused:  # as the broker of this process says it
            if refused.code == _NOT_THERE:
                return None
            raise
        if answer.code == _NOT_THERE:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark or "")
        return answer


def _offset_in(answer: Frame | None) -> int | None:
    text = "" if answer is None else answer.fields.get("offset", "")
    return int(text) if text.isdecimal() else None
