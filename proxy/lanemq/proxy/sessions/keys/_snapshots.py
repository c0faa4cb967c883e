"""Snapshots of namespaces, kept for clients that read them page by page."""

import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Final, final

from lanemq.storage.kv import Frozen
from lanemq.wire import Refused, ResponseCode

from ...net._session import Session
from ...net._session_places import SessionPlaces

SNAPSHOTS_MAX: Final = 16
LEASE_S: Final = 60.0
PINNED_BYTES_MAX: Final = 64 << 20
"""Bytes of rows in memory that are kept for snapshots alone, of all peers together."""
NEW: Final = "new"


@final
@dataclass(slots=True)
class _Kept:
    namespace: str
    frozen: Frozen
    used_s: float
    session: Session


@final
class Snapshots:
    """The snapshots of one broker; one ends with its connection, or if nobody reads it for a
    minute, or if too much is kept in memory for those of its address."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._places = SessionPlaces(SNAPSHOTS_MAX)

    def add(self, namespace: str, frozen: Frozen, now_s: float, session: Session) -> str:
        """Keep a snapshot; returns its name. Raises ``Refused`` (SYSTEM_BUSY) for too many."""
        self.expire(now_s)
        self.check_room(session)
        name = secrets.token_hex(8)
        self._kept[name] = _Kept(namespace, frozen, now_s, session)
        self._places.take(session)
        if self.closed not in session.on_close:
            session.on_close.append(self.closed)
        return name

    def check_room(self, session: Session) -> None:
        """Check that there is room for one more. Raises ``Refused``."""
        if session.closed:
            raise Refused(ResponseCode.SYSTEM_BUSY, "the connection has ended")
        full = self._places.why_full(session, "snapshots are kept")
        if full:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"{full}; try again in a minute")

    def get(self, name: str, namespace: str, now_s: float, session: Session) -> Frozen:
        """Return a snapshot that the connection has made.

        Raises ``Refused`` (KV_COMPACTED) for one that is not there, or is another connection's.
        """
        kept = self._kept.get(name)
        if kept is None or kept.namespace != namespace or kept.session is not session:
            remark = f"there is no snapshot {name!r} any more: begin again"
            raise Refused(ResponseCode.KV_COMPACTED, remark)
        kept.used_s = now_s
        return kept.frozen

    def remove(self, name: str) -> None:
        """Give a snapshot up."""
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._places.give_back(kept.session)

    def closed(self, session: Session) -> None:
        """Give up the snapshots of a connection that has ended."""
        for name in [name for name, kept in self._kept.items() if kept.session is session]:
            self.remove(name)

    def drop(self, namespace: str) -> None:
        """Give up the snapshots of a partition."""
        for name in [name for name, kept in self._kept.items() if kept.namespace == namespace]:
            self.remove(name)

    def expire(self, now_s: float) -> None:
        """Give up snapshots that were not read for a minute, and those for which too much is kept;
        to be called several times a second, whether they are read or not."""
        for name in [name for name, kept in self._kept.items() if now_s - kept.used_s > LEASE_S]:
            self.remove(name)
        self._let_go()

    def _let_go(self) -> None:
        """Give up the oldest ones of the address for which most is kept, until it is little
        enough: reading one, again and again, must not keep all that has ever been written."""
        pinned = {name: kept.frozen.table.pinned_bytes for name, kept in self._kept.items()}
        while sum(pinned.values()) > PINNED_BYTES_MAX:
            of_host = Counter[str]()
            for name, size_bytes in pinned.items():
                of_host[self._kept[name].session.peer.host] += size_bytes
            ((most, _),) = of_host.most_common(1)
            oldest = next(
                name
                for name, size_bytes in pinned.items()
                if size_bytes and self._kept[name].session.peer.host == most
            )
            self.remove(oldest)
            del pinned[oldest]

    def clear(self) -> None:
        """Give up everything."""
        for name in list(self._kept):
            self.remove(name)
