"""Reads of keys: those that take more than an entry's time are cut into pages, a turn each."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, final

import msgspec
from attrs import define, field

from lanemq.storage.kv import Frozen, KvState, SnapshotGone, read_entry, read_page
from lanemq.wire import Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvGet, KvMultiGet, KvScan
from lanemq.wire.kv import VALUE_BYTES_MAX, Entry, check_key, decode_keys, partition_name

from ...net._page_turns import Turns
from ...net._session import Session
from ._checks import decoded_key
from ._readable import Readable
from ._result import KvResult
from ._snapshots import NEW, Snapshots

CONSISTENCIES: Final = frozenset({"linearizable", "local"})


@final
@define(eq=False, kw_only=True, repr=False)
class Pages:
    """Answers KV_GET, KV_MULTI_GET and KV_SCAN."""

    _now_s: Callable[[], float]
    _readable: Readable
    _turns: Turns
    snapshots: Snapshots = field(init=False, factory=Snapshots)

    def get(self, header: KvGet) -> KvResult:
        """Answer an entry, or nil where there is none."""
        check_consistency(header.consistency)
        key = decoded_key(header.key, "key")
        checked(key)
        state = self._state(header)
        try:
            return KvResult.of(read_entry(state, key))
        except OSError as error:
            raise self._readable.unreadable(header.namespace, header.partition, error) from error

    def multi_get(
        self, header: KvMultiGet, frame: Frame, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        """Answer the entries of the first keys, as many as have 4 MiB of values together and can
        be read in one turn."""
        check_consistency(header.consistency)
        try:
            keys = decode_keys(frame.body)
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
        for key in keys:
            checked(key)
        return self._turns.read(session, lambda until_s: self._multi_get(header, keys, until_s))

    def _multi_get(self, header: KvMultiGet, keys: list[bytes], until_s: float) -> KvResult:
        state = self._state(header)
        found: list[Entry | None] = []
        size_bytes = 0
        try:
            for key in keys:
                entry = read_entry(state, key)
                found.append(entry)
                size_bytes += len(entry.value) if entry is not None else 0
                if size_bytes > VALUE_BYTES_MAX or perf_counter() > until_s:
                    break
        except OSError as error:
            raise self._readable.unreadable(header.namespace, header.partition, error) from error
        return KvResult.of(found)

    def scan(
        self, header: KvScan, frame: Frame, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        """Answer a page of entries under a prefix."""
        return self._turns.read(session, lambda until_s: self._scan(header, session, until_s))

    def _scan(self, header: KvScan, session: Session, until_s: float) -> KvResult:
        now_s = self._now_s()
        whole = self._state(header)
        state: KvState | Frozen = whole
        partition = partition_name(header.namespace, header.partition)
        name = header.snapshot
        if name == NEW:
            self.snapshots.expire(now_s)
            self.snapshots.check_room(session)
            try:
                state = whole.freeze()
            except OSError as error:
                raise self._readable.unreadable(
                    header.namespace, header.partition, error
                ) from error
            name = self.snapshots.add(partition, state, now_s, session)
        elif name is not None:
            state = self.snapshots.get(name, partition, now_s, session)
        try:
            page = read_page(
                state,
                decoded_key(header.prefix, "prefix"),
                cursor=None if header.cursor is None else decoded_key(header.cursor, "cursor"),
                limit=header.limit,
                keys_only=header.keys_only,
                until_s=until_s,
            )
        except SnapshotGone as error:
            raise Refused(ResponseCode.KV_COMPACTED, f"{error}: begin again") from error
        except OSError as error:
            raise self._readable.unreadable(header.namespace, header.partition, error) from error
        if name is not None:
            if page.cursor is None:
                self.snapshots.remove(name)
            else:
                page = msgspec.structs.replace(page, snapshot=name)
        return KvResult.of(page)

    def _state(self, header: KvGet | KvMultiGet | KvScan) -> KvState:
        return self._readable.find(header.namespace, header.partition, header.partitions)


def check_consistency(name: str) -> None:
    """Raise ``Refused`` for a consistency that does not exist."""
    if name not in CONSISTENCIES:
        remark = f"there is no consistency {name!r}; there are linearizable and local"
        raise Refused(ResponseCode.INVALID_PARAMETER, remark)


def checked(key: bytes) -> None:
    """Raise ``Refused`` for a key beyond the limits."""
    try:
        check_key(key)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
