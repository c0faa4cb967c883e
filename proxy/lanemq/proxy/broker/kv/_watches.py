"""KV_WATCH: requests that wait for changes of keys."""

from collections.abc import Awaitable
from typing import Final, final

import msgspec
import trio

from lanemq.storage import KvStates
from lanemq.storage.kv import read_changes
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.headers import KvWatch
from lanemq.wire.kv import Changes, partition_name

from ._checks import decoded_key
from ._partitions import Partitions
from ._result import KvResult

WATCHES_MAX: Final = 1024
WATCH_WAIT_MS_MAX: Final = 60_000


@final
class Watches:
    """The watches of one broker. A watcher that does not read costs nothing: it asks again."""

    def __init__(self, *, partitions: Partitions, states: KvStates) -> None:
        self._partitions = partitions
        self._states = states
        self._news: dict[str, trio.Event] = {}
        self._watches = 0
        states.on_applied.append(lambda name, _: self.wake(name))

    def watch(self, header: KvWatch) -> KvResult | Awaitable[KvResult]:
        """Answer changes, at once where there are any, else as soon as there are."""
        prefix = decoded_key(header.prefix, "prefix")
        changes = self._changes(header, prefix)
        if changes.changes or header.wait_millis <= 0:
            return KvResult.of(changes)
        if self._watches >= WATCHES_MAX:
            remark = f"{WATCHES_MAX} watches are waiting already; try again in a moment"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        return self._wait_for_changes(header, prefix)

    async def _wait_for_changes(self, header: KvWatch, prefix: bytes) -> KvResult:
        name = partition_name(header.namespace, header.partition)
        wait_s = min(header.wait_millis, WATCH_WAIT_MS_MAX) / 1000
        self._watches += 1
        try:
            with trio.move_on_after(wait_s):
                while True:
                    news = self._news.setdefault(name, trio.Event())
                    changes = self._changes(header, prefix)
                    if changes.changes:
                        break
                    header = msgspec.structs.replace(
                        header, position=changes.next_position, index=changes.next_index
                    )
                    if changes.next_position < self._states.states[name].meta.next:
                        await trio.lowlevel.checkpoint()  # one read looks at so many only
                    else:
                        await news.wait()
            changes = self._changes(header, prefix)
        finally:
            self._watches -= 1
        return KvResult.of(changes)

    def _changes(self, header: KvWatch, prefix: bytes) -> Changes:
        name = partition_name(header.namespace, header.partition)
        state = self._partitions.find(header.namespace, header.partition, header.partitions)
        if header.position > state.meta.next:
            remark = (
                f"namespace {header.namespace} has {state.meta.next} records, there is nothing "
                f"from {header.position} on to wait for: begin anew with a scan"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        changes = read_changes(
            state,
            self._states.logs[name],
            prefix,
            position=header.position,
            index=header.index,
            limit=header.limit,
        )
        if changes is None:
            remark = (
                f"changes of namespace {header.namespace} from {header.position} on are not known "
                "any more: scan, then watch from the position of the first page"
            )
            raise Refused(ResponseCode.KV_COMPACTED, remark)
        return changes

    def wake(self, name: str) -> None:
        """Have the watches of a partition look again."""
        news = self._news.pop(name, None)
        if news is not None:
            news.set()
