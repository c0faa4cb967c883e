"""KV_STATE: rows of a partition that is closed here, for the broker that it moves to."""

from collections.abc import Awaitable, Callable
from typing import final

from attrs import define

from lanemq.storage import KvStates
from lanemq.storage.kv import KvState, read_rows
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvState as KvStateHeader
from lanemq.wire.kv import PARTITIONS_MAX, partition_name

from ...net._page_turns import Turns
from ...net._session import Session
from ...sessions.keys._checks import check_place, decoded_key
from ...sessions.keys._result import KvResult
from ._partitions import Partitions


@final
@define(eq=False, kw_only=True, repr=False)
class StatePages:
    """Answers KV_STATE."""

    _made_for: Callable[[str, int], Awaitable[KvState | None]]
    _partitions: Partitions
    _states: KvStates
    _turns: Turns

    async def state(self, header: KvStateHeader, frame: Frame, session: Session) -> KvResult:
        """Answer rows of a partition that is closed here, to the broker that it moves to."""
        check_place(header.partition, PARTITIONS_MAX)
        name = partition_name(header.namespace, header.partition)
        state = await self._made_for(name, header.position)
        if state is None and name in self._partitions.waits_for:
            remark = f"partition {header.partition} of {header.namespace} is on its way here"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        if state is None:
            raise self._partitions.not_here(header.namespace, header.partition, header.position)
        return await self._turns.later(session, lambda until_s: self._rows(name, header, until_s))

    def _rows(self, name: str, header: KvStateHeader, until_s: float) -> KvResult:
        state = self._states.states.get(name)
        if state is None:
            raise self._partitions.no_partition(header.namespace)
        if self._partitions.is_open(name) or state.meta.next != header.position:
            remark = (
                f"partition {header.partition} of {header.namespace} is at record "
                f"{state.meta.next} here, and {header.position} is asked for"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        cursor = None if header.cursor is None else decoded_key(header.cursor, "cursor")
        try:
            return KvResult.of(read_rows(state, cursor, until_s=until_s))
        except OSError as error:
            raise self._partitions.unreadable(header.namespace, header.partition, error) from error
