"""The share of one address in the topics or groups that requests of clients create.

They outlive the connections that made them, and operators alone can delete them. So clients of one
address create a new one only if four times as many as they have created are left. Beyond the number
that a broker may have, and beyond a client's share, operators still create what they want.
"""

from collections.abc import Callable
from typing import Final, final

from lanemq.wire import Refused, ResponseCode

from ...net.limits._quotas import OWNER_SHARE, PeerQuota, has_share

CREATED_MAX: Final = 50_000
"""Topics, and groups, of a broker up to which requests of clients create new ones."""


@final
class Creations:
    """The objects that clients have created since the start, by name; ``kind`` is for refusals,
    as is ``way_on``.

    ``asking`` returns the address of the client whose request is handled; None for the broker's
    own work, which has no bounds. ``known`` returns the number of all that exist, of which there
    are ``most``, or ``CREATED_MAX``, with ``share`` as in ``has_share``.
    """

    def __init__(
        self,
        kind: str,
        known: Callable[[], int],
        asking: Callable[[], str | None],
        *,
        most: int | None = None,
        share: float = OWNER_SHARE,
        way_on: str = "let an operator create it, or delete some",
    ) -> None:
        self._kind = kind
        self._known = known
        self._asking = asking
        self._given = most
        self._share = share
        self._way_on = way_on
        self._by_host = PeerQuota[str](self._most)
        self._hosts: dict[str, str] = {}

    @property
    def _most(self) -> int:
        return CREATED_MAX if self._given is None else self._given

    @property
    def has_room(self) -> bool:
        """True if the client whose request is handled may create one more."""
        return self._has_room(1)

    def _has_room(self, count: int) -> bool:
        host = self._asking()
        if host is None:
            return True
        held, known = self._by_host.held_by(host) + count - 1, self._known() + count - 1
        return has_share(held, self._most - known, self._share)

    def require_room(self, count: int = 1) -> None:
        """Raise ``Refused`` (SYSTEM_BUSY) without room for so many more."""
        if self._has_room(count):
            return
        host = self._asking() or ""
        remark = (
            f"requests from {host} have created {self._by_host.held_by(host)} {self._kind}s since "
            f"the start, and the broker has {self._known()} of the {self._most} up to which "
            f"clients create new ones: {self._way_on}"
        )
        raise Refused(ResponseCode.SYSTEM_BUSY, remark)

    def created(self, name: str) -> None:
        """Count one for the client whose request is handled."""
        host = self._asking()
        if host is not None and name not in self._hosts:
            self._hosts[name] = host
            self._by_host.take(host)

    def removed(self, name: str) -> None:
        """Forget one that was deleted, whoever created it."""
        host = self._hosts.pop(name, None)
        if host is not None:
            self._by_host.give_back(host)
