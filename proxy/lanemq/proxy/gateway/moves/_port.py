"""Requests for moved queues at one port: they go to the brokers that have the queues' parts.

What is for no moved queue passes on unchanged.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.sdk import RemotingClient
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ...net._dispatch import Outcome
from ...net._session import Session
from ..order import (
    FIELDS,
    IDS,
    NO_GROUPS,
    POSITIONS,
    PULLS,
    SENDS,
    MovedQueue,
    QueueOrder,
    SeenQueue,
    added_number,
    tag_of,
    topic_of_body,
)
from ..rewrites import with_fields
from ._gone import GoneRequests
from ._links import SideLinks
from ._locks import LOCKS, LocksOf, StoodLocks
from ._messages import MessageRequests, Onward
from ._numbers import (
    at_part,
    beyond,
    commit_of_pull,
    commits_at_parts,
    note_of_send,
    nothing_yet,
    part_to_read,
    pull_at_part,
    queue_of,
)
from ._offsets import ANSWERED_BY_PROXY, answered
from ._queues import HELD_S, MovingQueues
from ._serving import Held
from ._ways import ClientPort, Link

Code = RequestCode
_POPS: Final = frozenset({200050, 200052, 200054})  # POP, peek and notification of 5.x
_WHOLE: Final = frozenset({Code.INVOKE_BROKER_TO_RESET_OFFSET, *_POPS})
"""Requests that name a topic, and mean one broker's queues in its own numbers."""
_LINKS: Final = "links to the parts of moved queues"


@final
class MovedRequests:
    """The requests of all clients at one port."""

    def __init__(
        self,
        port: ClientPort,
        moving: MovingQueues,
        client: RemotingClient,
        rng: random.Random,
        *,
        address: Callable[[str], str | None],
        is_listed: Callable[[], bool],
    ) -> None:
        """``address`` gives that of a broker's master, if name servers list it; ``is_listed`` says
        whether they list the broker that clients see here."""
        self._port = port
        self._listed_at = address
        self._is_listed = is_listed
        self._moving = moving
        self._orders = moving.orders
        self._client = client
        self._rng = rng
        self._is_added = added_number(port.name) is not None
        self._messages = MessageRequests(port, moving.orders, self._links_of, self._link)
        self.locks = StoodLocks(
            moving, client, lambda name: address(name) or port.way(name, is_read=False).upstream
        )
        """The requests for locks of queues of drained brokers."""
        self._gone = GoneRequests(port.name, moving.stands, moving.orders, client, address)

    @property
    def is_stood_in(self) -> bool:
        """True if the broker that clients see here is drained, and they outlive it."""
        return not self._is_added and self._moving.stands.is_drained(self._port.name)

    def standing_in(self, broker: str) -> str:
        """Return the broker to ask in place of one, as ``Stands.standing_in``."""
        return self._moving.stands.standing_in(broker, self._listed_at)

    def take(self, frame: Frame, session: Session) -> Onward | Outcome:
        """Take a request for a moved queue, or let it pass. Raises ``Refused``."""
        name = self._port.name
        if frame.code in LOCKS and not self._is_added and self.locks.is_elsewhere((name,)):
            return self.locks.answer(frame, [LocksOf(name, frame)])
        taken = self._take(frame, session)
        if isinstance(taken, Onward) and self.is_stood_in and not self._is_listed():
            return self._gone.take(taken.frame, session)
        return taken

    def _take(self, frame: Frame, session: Session) -> Onward | Outcome:
        code = frame.code
        if code in FIELDS:
            return self._of_queue(frame, session)
        if code == Code.HEART_BEAT:
            self._keep_alive(frame, session)
        elif code in POSITIONS and not self._is_added:
            return self._messages.by_position(frame, session, POSITIONS[code])
        elif code in IDS and not self._is_added:
            return self._messages.by_id(frame, session, IDS[code])
        elif code in _WHOLE:
            self._check_whole(frame)
        elif code == Code.QUERY_ASSIGNMENT:
            self._check_assignment(frame)
        return Onward(frame)

    def era(self) -> int:
        """Return the number of times that the proxy's lease has ended."""
        return self._moving.lease.era

    # One queue

    def _of_queue(self, frame: Frame, session: Session) -> Onward | Outcome:
        topic, queue_id = queue_of(frame)
        self._moving.check_lease(topic)
        moved_here = self._moving.of_topic(topic)
        if not moved_here and not self._moving.called_off:
            return Onward(frame)
        order = self._orders.of(topic)
        if order is not None and moved_here and queue_id < 0 and frame.code in SENDS:
            queue_id = self._drawn(order, topic)
            frame = with_fields(frame, {FIELDS[frame.code][1]: str(queue_id)})
        seen = SeenQueue(self._port.name, queue_id)
        own = seen if order is None else order.own_of(seen)
        if own is None or own not in moved_here:
            if order is not None and order.moved_at(self._port.name, queue_id) is not None:
                remark = f"queue {queue_id} of {self._port.name} has a part of a moved queue"
                raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
            if own and frame.code in SENDS and self._moving.is_waiting(topic, own, sends=True):
                self._hold(frame, session, topic, own, lambda _: None)
                return None
            return Onward(frame)
        moved = moved_here[own]
        try:
            return self._for_moved(frame, session, topic, seen, moved)
        except RemoteProtocolError as error:
            remark = f"request {frame.code}: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None

    def _for_moved(
        self, frame: Frame, session: Session, topic: str, seen: SeenQueue, moved: MovedQueue
    ) -> Outcome:
        """Raises ``Refused``, ``RemoteProtocolError``."""
        code = frame.code
        if code in SENDS:
            self._send(frame, session, topic, seen, moved)
            return None
        if code in PULLS:
            return self._pull(frame, session, topic, seen, moved)
        if code == Code.UPDATE_CONSUMER_OFFSET:
            self._commit(frame, session, moved)
            return None
        if code in ANSWERED_BY_PROXY:
            return self._answer(frame, topic, moved)
        remark = f"request {code} is for one broker's queue, and this one has moved between several"
        raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    def _drawn(self, order: QueueOrder, topic: str) -> int:
        """Return one of the queues that clients see here."""
        number = added_number(self._port.name)
        run = None if number is None else order.run_at(number)
        count = order.first_of(self._port.name) if run is None else run.count
        if not count:
            remark = f"topic {topic!a} has no queue at {self._port.name}"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        return self._rng.randrange(count)

    def _send(
        self, frame: Frame, session: Session, topic: str, seen: SeenQueue, moved: MovedQueue
    ) -> None:
        if self._moving.is_waiting(topic, moved.place, sends=True):
            self._hold(frame, session, topic, moved.place, lambda _: None)
            return
        last = len(moved.parts) - 1
        note = note_of_send(frame, topic, seen, moved)
        link = self._link(session, moved.last.broker, is_read=False)
        self._links_of(session).ask(frame, note)
        self._port.post_aside(link, at_part(frame, moved, last))

    def _pull(
        self, frame: Frame, session: Session, topic: str, seen: SeenQueue, moved: MovedQueue
    ) -> Frame | None:
        own, note = pull_at_part(frame, topic, seen, moved)
        part = part_to_read(note, moved, self._moving.stands.gone_parts(moved))
        if part != note.part:
            return beyond(frame, moved, part)
        is_last = note.part == len(moved.parts) - 1
        if is_last and self._moving.is_waiting(topic, moved.place, sends=False):
            self._hold(frame, session, topic, moved.place, nothing_yet)
            return None
        link = self._link(session, moved.parts[note.part].broker, is_read=True)
        commit = commit_of_pull(frame, topic, seen)
        if commit is not None:
            self._commit(replace(commit, flag=commit.flag | FLAG_ONEWAY), session, moved)
        self._links_of(session).ask(frame, note)
        self._port.post_aside(link, own)
        return None

    def _commit(self, frame: Frame, session: Session, moved: MovedQueue) -> None:
        gone = self._moving.stands.gone_parts(moved)
        for number, (part, one) in enumerate(commits_at_parts(frame, moved, gone)):
            if number:
                one = replace(one, flag=one.flag | FLAG_ONEWAY)
            link = self._link(session, moved.parts[part].broker, is_read=True)
            self._links_of(session).ask(one, None)
            self._port.post_aside(link, one)

    async def _answer(self, frame: Frame, topic: str, moved: MovedQueue) -> Frame | None:
        """Answer a request about the offsets of all parts. Raises ``Refused``."""
        era = self._moving.lease.era
        # Others may have gone on while this proxy reads the log no more, and has its lease yet.
        moved = await self._moving.opened(topic, moved.place)
        gone = self._moving.stands.gone_parts(moved)
        answer = await answered(self._client, frame, moved, self._address, gone)
        self._moving.check_lease(topic)
        if self._moving.lease.era != era or self._moving.now(topic, moved.place) != moved:
            remark = "the queue has moved meanwhile: try again"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        return None if frame.flag & FLAG_ONEWAY else answer

    def _hold(
        self,
        frame: Frame,
        session: Session,
        topic: str,
        place: tuple[str, int],
        late: Callable[[Frame], Frame | None],
    ) -> None:
        held = Held(self._port.take_late, late, session, frame, trio.current_time() + HELD_S)
        self._moving.hold(topic, place, held)

    # Other requests

    def _check_whole(self, frame: Frame) -> None:
        topic = frame.fields.get("topic", "")
        is_reset = frame.code == Code.INVOKE_BROKER_TO_RESET_OFFSET
        names_queue = not frame.fields.get("queueId", "-1").startswith("-")
        if is_reset and self._is_added and not names_queue:
            return  # the broker's own port answers for all
        self._refuse_moved(frame, topic)

    def _check_assignment(self, frame: Frame) -> None:
        if self._moving.has_any:
            self._refuse_moved(frame, topic_of_body(frame))

    def _refuse_moved(self, frame: Frame, topic: str) -> None:
        """Raise ``Refused`` for a request about a topic of which a queue has moved."""
        if topic and self._moving.of_topic(topic):
            raise Refused(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"request {frame.code} means the queues that one broker has, and queues of topic "
                f"{topic!a} have moved between brokers",
            )

    def _keep_alive(self, frame: Frame, session: Session) -> None:
        """Keep the links of a client alive, as its heartbeats do with the port's own."""
        links = session.attributes.get(_LINKS)
        if links is None:
            return
        assert isinstance(links, SideLinks)
        for link in links.living():
            self._port.post_aside(
                link, replace(frame, body=NO_GROUPS, flag=frame.flag | FLAG_ONEWAY, fields={})
            )

    # Links

    def _links_of(self, session: Session) -> SideLinks:
        links = session.attributes.get(_LINKS)
        if links is None:
            links = session.attributes[_LINKS] = SideLinks(session, self._moving, self._tag)
        assert isinstance(links, SideLinks)
        return links

    def _tag(self, broker: str) -> int:
        return 0 if broker == self._port.name else tag_of(self._orders.behind, broker)

    def _address(self, broker: str) -> str:
        return self._port.way(broker, is_read=True).upstream

    def _link(self, session: Session, broker: str, *, is_read: bool) -> Link:
        """Return a client's link to a broker. Raises ``Refused``."""
        way = self._port.way(broker, is_read=is_read)
        links = self._links_of(session)
        link = links.find(way.key)
        if link is None:
            link = way.open(session, links.receive, partial(links.discard, way.key))
            links.add(way.key, link)
        return link
