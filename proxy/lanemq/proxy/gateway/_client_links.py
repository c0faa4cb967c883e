"""The connections of one client at the port of an added broker: one to each broker behind it.

A broker's slave that stands in for it has a connection of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import trio

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ..net._session import Session
from ._gathered import ANSWER_S, GATHERED_MAX, Gathered
from ._link import BrokerLink
from ._numbers import BrokerKey


@final
class ClientLinks:
    """The links of a client, the requests that several of them answer, and its groups."""

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._is_timing = False
        self._links: dict[BrokerKey, BrokerLink] = {}
        self._gathered: dict[int, Gathered] = {}
        self._groups: Mapping[str, Sequence[str]] = {}
        self._groups_bytes = 0
        session.on_close.append(lambda _: self._end())

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The groups in the client's last heartbeat, with the topics of each."""
        return self._groups

    def note_groups(self, groups: Mapping[str, Sequence[str]], size_bytes: int) -> None:
        """Take the groups of a heartbeat of so many bytes."""
        self._groups = groups
        charge, self._groups_bytes = size_bytes - self._groups_bytes, size_bytes
        self._session.account.add(charge)

    def find(self, key: BrokerKey) -> BrokerLink | None:
        """Return the link to a broker; None where there is none, or it has ended."""
        link = self._links.get(key)
        return None if link is None or link.is_over else link

    def living(self) -> Iterator[BrokerKey]:
        """Iterate over the brokers to which there are links."""
        return (key for key in sorted(self._links) if self.find(key) is not None)

    def add(self, key: BrokerKey, link: BrokerLink) -> None:
        """Take the link to a broker, in place of one that has ended."""
        self._links[key] = link

    def discard(self, key: BrokerKey, link: BrokerLink) -> None:
        """Forget a link that has ended."""
        if self._links.get(key) is link:
            del self._links[key]

    def gather(self, frame: Frame, parts: int) -> None:
        """Make one answer of those of several brokers to a request. Raises ``Refused``."""
        if frame.flag & FLAG_ONEWAY:
            return
        if len(self._gathered) >= GATHERED_MAX:
            raise Refused(
                ResponseCode.SYSTEM_BUSY, f"{GATHERED_MAX} requests wait for several brokers"
            )
        self._forget(frame.opaque)
        until_s = trio.current_time() + ANSWER_S
        self._gathered[frame.opaque] = Gathered(frame, parts, until_s)
        if not self._is_timing:
            self._is_timing = True
            self._nursery.start_soon(self._answer_late)

    async def _answer_late(self) -> None:
        """Answer requests at their time, until none waits: one broker of several may be silent."""
        while self._gathered:
            opaque, oldest = next(iter(self._gathered.items()))
            await trio.sleep_until(oldest.until_s)
            if self._gathered.get(opaque) is oldest:
                self._forget(opaque)
                self._session.send_all([oldest.late()])
        self._is_timing = False

    def receive(self, frames: Sequence[Frame]) -> None:
        """Pass frames of a link on to the client. Brokers make no requests of it here, where it
        is no member of a group."""
        passed = []
        for frame in frames:
            if not frame.is_response:
                continue
            gathered = self._gathered.get(frame.opaque)
            whole: Frame | None = frame
            if gathered is not None:
                whole = gathered.take(frame)
                self._session.account.add(len(frame.body))
            if whole is not None:
                self._forget(frame.opaque)
                passed.append(whole)
        if passed:
            self._session.send_all(passed)

    def _forget(self, opaque: int) -> None:
        gathered = self._gathered.pop(opaque, None)
        if gathered is not None:
            self._session.account.add(-gathered.charged_bytes)

    def _end(self) -> None:
        self._gathered.clear()
        for link in tuple(self._links.values()):
            link.end("the client is gone")
