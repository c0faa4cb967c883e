"""KV_LEASES: a lease with its keys, and pages of leases."""

from collections.abc import Awaitable, Callable
from typing import final

from attrs import define

from lanemq.storage.kv import read_lease, read_leases
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvLeases
from lanemq.wire.kv import LEASE_MAX, LeasePage, lessor_of, partition_name

from ...net._page_turns import Turns
from ...net._session import Session
from ._readable import Readable
from ._remarks import NO_LEASE
from ._result import KvResult


@final
@define(eq=False, kw_only=True, repr=False)
class LeaseReads:
    """Answers KV_LEASES. An account sees its own leases, and those of all others if it asks for
    them, which takes the right to all keys."""

    _now_ms: Callable[[str], int]
    """Returns the time that the log of a partition has now."""
    _readable: Readable
    _signer: Callable[[Frame, Session], str]
    _turns: Turns

    def leases(
        self, header: KvLeases, frame: Frame, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        """Answer one lease, or a page of leases. Raises ``Refused``."""
        for number in (header.lease or 0, header.first):
            if not 0 <= number <= LEASE_MAX:
                remark = f"no lease can have the number {number}: they are 1 to {LEASE_MAX}"
                raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        lessor = lessor_of(self._signer(frame, session), session.peer.host)
        return self._turns.read(session, lambda until_s: self._read(header, lessor, until_s))

    def _read(self, header: KvLeases, lessor: str, until_s: float) -> KvResult:
        state = self._readable.find(header.namespace, header.partition, header.partitions)
        now_ms = self._now_ms(partition_name(header.namespace, header.partition))
        whose = None if header.of_any else lessor
        try:
            if header.lease is None:
                return KvResult.of(
                    read_leases(
                        state,
                        header.first,
                        whose,
                        limit=header.limit,
                        now_ms=now_ms,
                        until_s=until_s,
                    )
                )
            found = read_lease(state, header.lease, whose, now_ms=now_ms)
        except OSError as error:
            raise self._readable.unreadable(header.namespace, header.partition, error) from error
        if found is None:
            raise Refused(ResponseCode.KV_LEASE_NOT_EXIST, NO_LEASE)
        return KvResult.of(LeasePage([found], None, state.meta.next))
