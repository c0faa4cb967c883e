"""Requests that name one message, by its place in a log: they go to the broker that has it."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, final

from msgspec.structs import replace

from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame

from ...logical.rules._records import record_pieces
from ...net._session import Session
from ..order import QueueOrders, broker_of, tag_of
from ..rewrites import with_fields, with_id_position, with_queue_ids
from ._links import SideLinks
from ._ways import ClientPort, Link

Code = RequestCode
_DIGITS: Final = 19


class Onward(NamedTuple):
    """A request that is for no moved queue, as it passes on."""

    frame: Frame


class LinkTo(Protocol):
    """Gives a client's link to a broker. Raises ``Refused``."""

    def __call__(self, session: Session, broker: str, *, is_read: bool) -> Link:
        """Return the link."""


@final
class MessageRequests:
    """Those of all clients at one port of a broker of the cluster."""

    def __init__(
        self,
        port: ClientPort,
        orders: QueueOrders,
        links_of: Callable[[Session], SideLinks],
        link: LinkTo,
    ) -> None:
        self._port = port
        self._orders = orders
        self._links_of = links_of
        self._link = link

    def by_position(self, frame: Frame, session: Session, field: str) -> Onward | None:
        """Pass a request for a message on to the broker that has it, by the tag."""
        text = frame.fields.get(field, "")
        if not text.isdecimal() or len(text) > _DIGITS:
            return Onward(frame)
        broker, position = broker_of(self._orders.behind, int(text))
        if broker is None:
            return Onward(frame)
        own = with_fields(frame, {field: str(position)})
        return self._to(own, session, broker)

    def by_id(self, frame: Frame, session: Session, field: str) -> Onward | None:
        """Do the same by the id of a message, which has the position."""
        found: list[str] = []

        def position_of(tagged: int) -> int:
            broker, position = broker_of(self._orders.behind, tagged)
            found.extend([] if broker is None else [broker])
            return position

        text = with_id_position(frame.fields.get(field, ""), position_of)
        if not found:
            return Onward(frame)
        return self._to(with_fields(frame, {field: text}), session, found[0])

    def _to(self, frame: Frame, session: Session, broker: str) -> Onward | None:
        if broker == self._port.name:
            return Onward(frame)
        own = with_fields(
            frame, {name: broker for name in ("bname", "brokerName") if name in frame.fields}
        )
        link = self._link(session, broker, is_read=frame.code == Code.VIEW_MESSAGE_BY_ID)
        self._links_of(session).ask(frame, None, partial(self._with_records, broker))
        self._port.post_aside(link, own)
        return None

    def _with_records(self, broker: str, answer: Frame) -> Frame:
        """Return an answer whose message has the queue that clients see, and a position with the
        broker's tag; offsets stay the broker's own. It is the first one, which alone was asked
        for."""
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return answer

        def renamed(topic: str, queue_id: int) -> int | None:
            seen = self._orders.seen(topic, broker, queue_id)
            return None if seen is None else seen.queue_id

        try:
            tag = tag_of(self._orders.behind, broker)
            first = next(record_pieces(answer.body, 1))
            return replace(answer, body=with_queue_ids(first, renamed, tag))
        except RemoteProtocolError:
            return answer
