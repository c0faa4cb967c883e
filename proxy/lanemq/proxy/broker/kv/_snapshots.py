"""Snapshots of namespaces, kept for clients that read them page by page."""

import secrets
from dataclasses import dataclass
from typing import Final, final

from lanemq.storage.kv import Frozen
from lanemq.wire import Refused, ResponseCode

SNAPSHOTS_MAX: Final = 4
LEASE_S: Final = 60.0
NEW: Final = "new"


@final
@dataclass(slots=True)
class _Kept:
    namespace: str
    frozen: Frozen
    used_s: float


@final
class Snapshots:
    """The snapshots of one broker; one that is not read for a minute is given up."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def add(self, namespace: str, frozen: Frozen, now_s: float) -> str:
        """Keep a snapshot; returns its name. Raises ``Refused`` (SYSTEM_BUSY) for too many."""
        self.expire(now_s)
        self.check_room()
        name = secrets.token_hex(8)
        self._kept[name] = _Kept(namespace, frozen, now_s)
        return name

    def check_room(self) -> None:
        """Check that there is room for one more. Raises ``Refused``."""
        if len(self._kept) >= SNAPSHOTS_MAX:
            remark = f"{SNAPSHOTS_MAX} snapshots are being read already; try again in a minute"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)

    def get(self, name: str, namespace: str, now_s: float) -> Frozen:
        """Return a snapshot. Raises ``Refused`` (KV_COMPACTED) for one that is not there."""
        kept = self._kept.get(name)
        if kept is None or kept.namespace != namespace:
            remark = f"there is no snapshot {name!r} any more: begin anew"
            raise Refused(ResponseCode.KV_COMPACTED, remark)
        kept.used_s = now_s
        return kept.frozen

    def remove(self, name: str) -> None:
        """Give a snapshot up."""
        self._kept.pop(name, None)

    def expire(self, now_s: float) -> None:
        """Give up snapshots that were not read for a minute."""
        for name in [name for name, kept in self._kept.items() if now_s - kept.used_s > LEASE_S]:
            del self._kept[name]

    def clear(self) -> None:
        """Give up everything."""
        self._kept.clear()
