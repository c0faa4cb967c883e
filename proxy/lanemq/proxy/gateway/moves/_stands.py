"""The brokers that stand in for drained ones, as far as one process has read the log of orders.

Clients know a queue by the broker where it was first. Once that broker is drained, another one
lends the locks of its queues. In between both do, until nobody has a lock at the first one alone.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, final

import msgspec
import trio
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError

from ..kv import UpstreamKeys
from ..order import MovedQueue

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

Address = Callable[[str], str | None]
"""Gives the address of a broker's master; None where name servers do not list it."""
STANDS: Final = b"stand/"
GONE_S: Final = 60.0
"""Seconds after which a broker that name servers list no longer is gone: one that has just started
lists each broker within 30 s."""


@final
class Stand(msgspec.Struct, frozen=True, array_like=True):
    """The entry of a broker that is drained, or is to be."""

    at: str
    """The broker that does its part: itself at first."""
    target: str = ""
    """The one that is to do it, and does it besides; empty where it stays as it is."""
    is_done: bool = False
    """True once nobody has anything to read there, or it will not come back."""
    is_forgotten: bool = False
    """True once it will not come back: a broker of its name has none of its messages. Proxies from
    before this member take it for False, and leave it out of what they write."""
    number: int = 0
    """A number that grows with each change, also over records that the log of orders has lost, by
    which a later entry is known: the log's time. 0 of proxies from before this member."""
    is_ended: bool = False
    """True where the broker does its part itself again. Without an entry, a proxy that was cut off
    would take what it knows for lost, and write it back. Proxies from before this member take it
    for the begin of a drain."""

    @property
    def places(self) -> tuple[str, ...]:
        """The brokers that have to grant its locks."""
        return (self.at, self.target) if self.target else (self.at,)


def stand_key(broker: str) -> bytes:
    """Return the name of a broker's entry."""
    return STANDS + broker.encode()


def decode_stand(data: bytes) -> Stand:
    """Read an entry. Raises ``RemoteProtocolError``."""
    try:
        return msgspec.json.decode(data, type=Stand)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"an entry that says no broker: {error}") from error


class _Unlisted(NamedTuple):
    """A broker with an entry that name servers do not list."""

    since_s: float
    version: int
    """That of its entry, when this was last seen."""


@final
class Stands:
    """The brokers with entries, but for those of which these have ended."""

    def __init__(
        self, keys: UpstreamKeys, *, now_s: Callable[[], float] = trio.current_time
    ) -> None:
        self._keys = keys
        self._now_s = now_s
        self._watch = keys.watch(STANDS)
        self._listed: Collection[str] = ()
        self._came_s: dict[str, float] = {}
        self._unlisted: dict[str, _Unlisted] = {}
        self._known: dict[str, Stand] = {}
        self._ended: dict[str, Stand] = {}
        self._unreadable: set[str] = set()

    @property
    def known(self) -> Mapping[str, Stand]:
        """The brokers with entries."""
        return self._known

    def all(self) -> Mapping[str, Stand]:
        """Return the entries that there are, those that have ended, too."""
        return self._known | self._ended

    def of(self, broker: str) -> Stand | None:
        """Return the entry of a broker; None where it does its part itself."""
        return self._known.get(broker)

    def is_drained(self, broker: str) -> bool:
        """Return whether another broker does its part."""
        stand = self._known.get(broker)
        return stand is not None and stand.at != broker

    @property
    def drained(self) -> list[str]:
        """The brokers of which others do their parts, in the order of their names."""
        return [name for name in sorted(self._known) if self.is_drained(name)]

    def is_forgotten(self, broker: str) -> bool:
        """Return whether a broker has none of the messages that one of its name had."""
        stand = self._known.get(broker)
        return stand is not None and stand.is_forgotten

    def standing_in(self, broker: str, address: Address) -> str:
        """Return the broker to ask in place of one: itself, or for one that is gone another."""
        stand = self._known.get(broker)
        return broker if stand is None or address(broker) is not None else stand.at

    def note_listed(self, listed: Collection[str]) -> dict[str, int]:
        """Take note of the brokers that name servers list.

        Returns those that were done and gone, and are back, each with the version of its entry.
        """
        back = {
            name: self._unlisted[name].version
            for name, stand in self._known.items()
            if name in listed and stand.is_done and not stand.is_forgotten and self.is_gone(name)
        }
        now_s, before = self._now_s(), self._unlisted
        came = set(listed) - set(self._listed) if self._listed else ()
        self._came_s |= dict.fromkeys(came, now_s)
        self._unlisted = {}
        for name in self._known.keys() - set(listed):
            # One that this process has not seen may be gone for long.
            since_s = now_s if name in self._listed else -math.inf
            if name in before:
                since_s = before[name].since_s
            self._unlisted[name] = _Unlisted(since_s, version_of_stand(self._keys, name))
        self._listed = listed
        return back

    def is_gone(self, broker: str) -> bool:
        """Return whether name servers have not listed a drained broker for ``GONE_S``."""
        found = self._unlisted.get(broker)
        return found is not None and self._now_s() - found.since_s >= GONE_S

    def listed_s(self, broker: str) -> float:
        """Return the seconds for which name servers list a broker; infinite where this process has
        not seen it come."""
        return self._now_s() - self._came_s.get(broker, -math.inf)

    def gone_parts(self, moved: MovedQueue) -> Collection[int]:
        """Return the parts of a queue that count as deleted: at brokers that are done, and gone,
        and at forgotten ones."""
        if not self._known:
            return ()
        done = {
            name
            for name in {part.broker for part in moved.parts[:-1]} & self._known.keys()
            if self._known[name].is_forgotten or (self._known[name].is_done and self.is_gone(name))
        }
        return {at for at, part in enumerate(moved.parts[:-1]) if part.broker in done}

    def is_unreadable(self, broker: str) -> bool:
        """Return whether a broker has an entry that this proxy cannot read."""
        return broker in self._unreadable

    def refresh(self) -> bool:
        """Take note of what the log has said; returns whether anything has changed."""
        is_news = False
        while told := self._watch.told():
            is_news = True
            for name, entry in told:
                self._take(
                    name.removeprefix(STANDS).decode("utf-8", "replace"),
                    None if entry is None else entry.value,
                )
        return is_news

    def _take(self, broker: str, value: bytes | None) -> None:
        self._unreadable.discard(broker)
        before = self._known.pop(broker, None)
        self._ended.pop(broker, None)
        if value is None:
            return
        try:
            now = decode_stand(value)
        except RemoteProtocolError as error:
            self._unreadable.add(broker)
            LOGGER.error("broker %s has %s: its locks are refused", broker, error)
            return
        (self._ended if now.is_ended else self._known)[broker] = now
        if now.at != broker and (before is None or before.at != now.at):
            LOGGER.info("%s stands in for %s", now.at, broker)


async def change_stand(keys: UpstreamKeys, broker: str, stand: Stand, version: int) -> bool:
    """Put another entry of a broker in place of that of a version. One that has another version
    meanwhile stays: returns False.

    Raises ``KeysUnavailable``, ``TooLong``, ``RemoteProtocolError``.
    """
    name = stand_key(broker)
    entry = keys.get(name)
    before = 0 if entry is None else decode_stand(entry.value).number
    # The log's time goes on where its records are lost, and are counted from before once more.
    number = max(before + 1, keys.log_of(name).state.meta.clock_ms)
    encoded = msgspec.json.encode(replace(stand, number=number))
    return await keys.put(name, encoded, expected=version) is not None


def version_of_stand(keys: UpstreamKeys, broker: str) -> int:
    """Return the version of a broker's entry; 0 for none."""
    entry = keys.get(stand_key(broker))
    return 0 if entry is None else entry.version


async def reopen(keys: UpstreamKeys, broker: str) -> None:
    """Note that a queue is to be written at a drained broker, so that nobody takes it for done who
    has looked before. Raises as ``change_stand``."""
    while (entry := keys.get(stand_key(broker))) is not None:
        stand = decode_stand(entry.value)
        if stand.is_ended:
            return  # a drain that begins puts another one
        now = replace(stand, is_done=False)
        if await change_stand(keys, broker, now, entry.version):
            return
