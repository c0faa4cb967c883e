"""The lease of one proxy: while it lasts, others wait for this proxy before a queue moves on.

It is an entry of the log of orders that expires. It says up to which record of the log the proxy
has carried out what queues that move ask of it. A proxy whose lease may have ended serves no queue
that may move, since it may not know where that goes on.
"""

import os
from collections.abc import Callable
from typing import Final, NamedTuple, final

import msgspec
import trio
from msgspec.structs import replace

from lanemq.local import get_logger, suspended_s
from lanemq.wire import Refused, RemoteProtocolError, ResponseCode

from ..kv import KeysUnavailable, TooLong
from ..order import QueueOrders

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

LEASES: Final = b"lease/"
ASKED: Final = b"renew"
"""The entry that is written to have all proxies renew their leases at once."""
TTL_S: Final = 60.0
SURE_S: Final = 50.0
"""Seconds from before it was asked for during which a proxy trusts in its lease."""
RENEW_S: Final = 10.0
URGENT_S: Final = 1.0
"""Seconds between renewals while a queue is sealed: its move waits for what all leases say, and
unrelated records of the log are among what they are to have carried out."""
AGAIN_S: Final = 1.0
GIVE_UP_S: Final = 2.0
OWN_BYTES: Final = 8
Key = tuple[str, tuple[str, int]]
"""A topic, and the first part of a queue of it."""


class CarriedOut(NamedTuple):
    """The part of the log of orders that a proxy has carried out."""

    done: int
    """The number of records up to which all is carried out."""
    stood: int
    """The same of brokers that stand in: what is read counts at once."""
    undone: tuple[Key, ...] | None
    """The queues whose latest changes of those up to ``stood`` are not; None for too many."""


@final
class Lease(msgspec.Struct, frozen=True, array_like=True):
    """The entry of a lease."""

    name: str
    """The proxy's address for routes."""
    done: int
    """Records of the log up to which all that concerns queues is carried out there."""
    stood: int = -1
    """The same of brokers that stand in; proxies that know of none do not say it."""
    undone: tuple[Key, ...] | None = None
    """Queues whose latest changes, of those up to ``stood``, are not carried out; None where it
    does not say which."""
    mark: str | None = None
    """The last record that its proxy had read (see ``mark_of``); None of proxies from before this
    member, which are taken at their word."""

    @property
    def read(self) -> int:
        """The number of records of the log up to the last one that it speaks of."""
        return max(self.done, self.stood)

    def has_done(self, position: int, key: Key) -> bool:
        """Return whether all that concerns a queue is carried out there up to a position."""
        if self.done >= position:
            return True
        return self.undone is not None and self.stood >= position and key not in self.undone


def decode_lease(data: bytes) -> Lease:
    """Read a lease. Raises ``RemoteProtocolError``."""
    try:
        return msgspec.json.decode(data, type=Lease)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"no lease of a proxy: {error}") from error


def mark_of(orders: QueueOrders, position: int) -> str:
    """Return what tells the record before a position from one that another log has there; empty
    where this process has not read it, or long ago."""
    recent = orders.keys.logs[0].follower.kept.recent
    first, end = recent.bounds()
    if not first < position <= end:
        return ""
    (record,) = recent.read(position - 1, 1)
    return f"{record.client}:{record.sequence}:{record.time_ms}"


def leases_in(orders: QueueOrders) -> list[Lease]:
    """Return the leases that there are, as far as this proxy knows.

    One that speaks of records that come after it, or that are others here, was written of a log
    that has lost records since: it counts, and says nothing of what is carried out of this one.
    Raises ``RemoteProtocolError`` for one that cannot be read: its proxy may serve.
    """
    found = []
    for name, entry in orders.keys.scan(LEASES):
        lease = decode_lease(entry.value)
        is_of_this = lease.mark is None or lease.mark == mark_of(orders, lease.read) != ""
        if lease.read > orders.keys.position_of(name) or not is_of_this:
            lease = Lease(lease.name, -1)
        found.append(lease)
    return found


async def ask_leases(orders: QueueOrders) -> int:
    """Have all proxies renew their leases at once; returns the position up to which those that live
    will have read the log. Proxies from before this entry take ``RENEW_S``.

    Raises ``KeysUnavailable``, ``TooLong``, ``RemoteProtocolError``.
    """
    await orders.keys.put(ASKED, b"")
    return orders.keys.position_of(ASKED)


@final
class ProxyLease:
    """The lease of this process; ``run`` is its task."""

    def __init__(
        self,
        orders: QueueOrders,
        name: str,
        *,
        told: Callable[[], CarriedOut],
        is_urgent: Callable[[], bool] = lambda: False,
        now_s: Callable[[], float] = trio.current_time,
    ) -> None:
        """``told`` returns what it says, ``is_urgent`` whether a move waits for it."""
        self._orders = orders
        self._own = LEASES + f"{name}/{os.urandom(OWN_BYTES).hex()}".encode()
        self._name = name
        self._carried_out = told
        self._is_urgent = is_urgent
        self._clock_s = now_s
        self._asked = orders.keys.watch(ASKED)
        self._until_s = -1.0
        self._is_sure = False
        self._era = 0
        self._told = -1
        self._wake = trio.Event()
        self._is_given_up = False
        self._held_back = ""
        self.granted = trio.Event()
        """Set once it was granted for the first time."""
        self.problem = "it has not been granted yet"
        """The reason why it was not renewed the last time; empty if it was."""

    def now_s(self) -> float:
        """Return the seconds of a clock that goes on while the machine is suspended: so does the
        log's time."""
        return self._clock_s() + suspended_s()

    @property
    def is_sure(self) -> bool:
        """True while it lasts, without doubt, and the orders are known."""
        is_known = self._orders.position >= 0 and not self._held_back
        is_sure = is_known and self.now_s() < self._until_s
        if self._is_sure and not is_sure:
            self._era += 1
            self._wake.set()
        self._is_sure = is_sure
        return is_sure

    @property
    def era(self) -> int:
        """The number of times that it has ended. What was asked in one, nobody answers in
        another."""
        self.is_sure  # noqa: B018 - notes an end
        return self._era

    @property
    def left_s(self) -> float:
        """Seconds for which this proxy trusts in it yet."""
        return max(0.0, self._until_s - self.now_s()) if self.is_sure else 0.0

    @property
    def why(self) -> str:
        """The reason why this proxy has none, while there is none."""
        unknown = self._orders.why_unknown or self._held_back
        return unknown or self.problem or "it was not renewed in time"

    def hold_back(self, why: str) -> None:
        """End it, and have none until this is called without a reason, and it was renewed."""
        if why == self._held_back:
            return  # it is not renewed once more for a reason that is said again and again
        self.is_sure  # noqa: B018 - notes whether there is one to end
        self._held_back, self._until_s, self._told = why, -1.0, -1
        self.is_sure  # noqa: B018 - notes the end
        self._wake.set()

    def refused(self) -> Refused:
        """Return the refusal of what needs it, while there is none."""
        remark = f"this proxy has no lease, so it may not know where queues have moved: {self.why}"
        return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def is_asked(self) -> bool:
        """Return whether a move has asked all proxies to renew their leases since the last time."""
        return bool(self._asked.told())

    def renew_for(self, position: int) -> None:
        """Renew it at once if it does not say yet that all is carried out up to a position."""
        if position > self._told:
            self._wake.set()

    async def run(self) -> None:
        """Renew it again and again, until cancelled."""
        failed = ""
        while not self._is_given_up:
            try:
                await self._renew()
            except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
                self.problem = str(error)
                if not failed:
                    LOGGER.warning("the lease of this proxy is not renewed: %s", error)
                failed = self.problem
                await trio.sleep(AGAIN_S)
                continue
            if failed:
                LOGGER.info("the lease of this proxy is renewed again")
            self.problem = failed = ""
            with trio.move_on_after(URGENT_S if self._is_urgent() else RENEW_S):
                await self._wake.wait()
            self._wake = trio.Event()

    async def _renew(self) -> None:
        follower = self._orders.keys.logs[0].follower
        while True:
            await self._orders.opened()
            kept, told = follower.kept, self._carried_out()
            begun_s = self.now_s()
            lease = Lease(self._name, *told)
            lease = replace(lease, mark=mark_of(self._orders, lease.read))
            await self._orders.keys.put(self._own, msgspec.json.encode(lease), ttl_s=TTL_S)
            if follower.kept is kept:
                break  # else it speaks of a log that was broken meanwhile
        self.is_sure  # noqa: B018 - notes an end meanwhile
        self._until_s = begun_s + SURE_S
        self._told = told.done if lease.mark else -1
        if not self.granted.is_set():
            # Those of the others may be of records that came with a snapshot, and say nothing here.
            await ask_leases(self._orders)
        self.granted.set()

    async def give_up(self) -> None:
        """Delete it, once this proxy serves nothing any more."""
        self._is_given_up = True
        self._until_s = -1.0
        with trio.move_on_after(GIVE_UP_S):
            try:
                await self._orders.keys.delete(self._own)
            except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
                LOGGER.info("the lease of this proxy ends by itself: %s", error)
