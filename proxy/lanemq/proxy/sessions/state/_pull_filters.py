"""The compiled subscriptions that the pulls of one connection bring along.

They end with the connection, whose account is charged for them.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, final

from ...net._session import Session

KEPT_MAX: Final = 32
KEPT_CHARS_MAX: Final = 16_384
"""Most characters of all texts together; beyond it, or beyond their number, everything is compiled
again."""

KEPT_BYTES: Final = 512
BYTES_PER_CHAR: Final = 64
"""Estimated bytes of a subscription per character: tags of two or more are hashed; SQL is
compiled."""

_NAME: Final = "pull filters"


class Wanted(NamedTuple):
    """The filter of a pull; both conditions must hold where both are given."""

    tag_codes: frozenset[int] | None = None
    """Hashes of the wanted tags; None for all."""
    matches: Callable[[bytes], bool] | None = None
    """Filter of the property string of a message; None if it does not matter."""


@final
class PullFilters:
    """The filters by type and text of a subscription."""

    def __init__(self, session: Session) -> None:
        self._account = session.account
        self._kept: dict[tuple[str | None, str], Wanted] = {}
        self._chars = 0
        self._charged_bytes = 0

    @classmethod
    def of(cls, session: Session) -> "PullFilters":
        """Return the filters of a connection."""
        found: PullFilters | None = session.attributes.get(_NAME)
        if found is None:
            found = session.attributes[_NAME] = cls(session)
        return found

    def get(self, expression_type: str | None, text: str) -> Wanted | None:
        """Return the filter kept under a type and a text."""
        return self._kept.get((expression_type, text))

    def keep(self, expression_type: str | None, text: str, wanted: Wanted) -> None:
        """Keep a filter."""
        chars = len(text)
        if chars > KEPT_CHARS_MAX:
            return
        if len(self._kept) >= KEPT_MAX or self._chars + chars > KEPT_CHARS_MAX:
            self._account.add(-self._charged_bytes)
            self._kept.clear()
            self._chars = self._charged_bytes = 0
        self._kept[expression_type, text] = wanted
        self._chars += chars
        charge = KEPT_BYTES + BYTES_PER_CHAR * chars
        self._charged_bytes += charge
        self._account.add(charge)
