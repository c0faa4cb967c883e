"""KV_WATCH: requests that wait for changes of keys."""

from collections import Counter
from collections.abc import Awaitable
from functools import partial
from typing import Final, final

import msgspec
import trio

from lanemq.storage.kv import KvState, WatchedKeys, read_changes, under_prefix
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvFollow, KvWatch
from lanemq.wire.kv import Changes, partition_name

from ...net._page_turns import Turns
from ...net._session import Session
from ...net._session_places import SessionPlaces
from ._checks import decoded_key
from ._readable import Readable
from ._result import KvResult

WATCHES_MAX: Final = 1024
WATCH_WAIT_MS_MAX: Final = 60_000


@final
class Watches:
    """The watches of one broker. A watcher that does not read costs nothing: it asks again."""

    def __init__(self, *, readable: Readable, turns: Turns) -> None:
        self._readable = readable
        self._turns = turns
        self._news: dict[str, trio.Event] = {}
        self._places = SessionPlaces(WATCHES_MAX)
        self.waiting = Counter[str]()
        """Name of a partition -> number of the watches that wait for its changes."""

    def watch(
        self, header: KvWatch, frame: Frame, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        """Answer changes, at once where there are any, else as soon as there are."""
        return self._answer(header, under_prefix(decoded_key(header.prefix, "prefix")), session)

    def follow(
        self, header: KvFollow, frame: Frame, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        """Answer changes of a range of keys, as ``watch`` does."""
        begin = decoded_key(header.begin, "begin")
        end = None if header.end is None else decoded_key(header.end, "end")
        return self._answer(header, WatchedKeys(begin, end, previous=header.previous), session)

    def _answer(
        self, header: KvWatch | KvFollow, asked: WatchedKeys, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        if header.wait_millis <= 0:
            return self._turns.read(
                session, lambda until_s: KvResult.of(self._changes(header, asked, until_s))
            )
        if self._turns.is_free:
            changes = self._turns.now(partial(self._changes, header, asked))
            if changes.changes:
                return KvResult.of(changes)
        return self._wait_for_changes(header, asked, session)

    async def _wait_for_changes(
        self, header: KvWatch | KvFollow, asked: WatchedKeys, session: Session
    ) -> KvResult:
        name = partition_name(header.namespace, header.partition)
        wait_s = min(header.wait_millis, WATCH_WAIT_MS_MAX) / 1000
        changes = Changes([], header.position, header.index)
        full = self._places.why_full(session, "watches wait")
        if full:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"{full}; try again in a moment")
        self._places.take(session)
        self.waiting[name] += 1
        try:
            with trio.move_on_after(wait_s):
                while True:
                    news = self._news.setdefault(name, trio.Event())
                    changes = await self._turns.later(
                        session, partial(self._changes, header, asked)
                    )
                    if changes.changes:
                        break
                    header = msgspec.structs.replace(
                        header, position=changes.next_position, index=changes.next_index
                    )
                    state = self._state(header)
                    if changes.next_position < state.meta.next:
                        await trio.lowlevel.checkpoint()  # one read looks at so many only
                    else:
                        await news.wait()
        finally:
            self._places.give_back(session)
            self.waiting[name] -= 1
            if not self.waiting[name]:
                del self.waiting[name]
                # A namespace that is not there has no change that would take its entry out.
                self._news.pop(name, None)
        return KvResult.of(changes)

    def _changes(self, header: KvWatch | KvFollow, asked: WatchedKeys, until_s: float) -> Changes:
        state = self._state(header)
        identity = state.meta.identity
        if header.identity and identity and header.identity != identity:
            remark = (
                f"namespace {header.namespace} was deleted and has been made again: it has no "
                "changes of the one before; scan, then watch from the position of the first page"
            )
            raise Refused(ResponseCode.KV_COMPACTED, remark)
        if header.position > state.meta.next:
            remark = (
                f"namespace {header.namespace} has {state.meta.next} records, there is nothing "
                f"from {header.position} on to wait for: begin again with a scan"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        try:
            changes = read_changes(
                state,
                self._readable.log(header.namespace, header.partition),
                asked,
                position=header.position,
                index=header.index,
                limit=header.limit,
                until_s=until_s,
            )
        except OSError as error:
            raise self._readable.unreadable(header.namespace, header.partition, error) from error
        if changes is None:
            remark = (
                f"changes of namespace {header.namespace} from {header.position} on are no longer "
                "known: scan, then watch from the position of the first page"
            )
            raise Refused(ResponseCode.KV_COMPACTED, remark)
        return msgspec.structs.replace(changes, identity=identity)

    def _state(self, header: KvWatch | KvFollow) -> KvState:
        return self._readable.find(header.namespace, header.partition, header.partitions)

    def wake(self, name: str) -> None:
        """Have the watches of a partition look again."""
        news = self._news.pop(name, None)
        if news is not None:
            news.set()
