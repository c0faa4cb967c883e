"""A broker that holds segments, as a listener reaches it, and one that is reached over a link.

A listener asks every broker by ``SegmentBroker``; that of its own process is another one of these
(``_own.py``). How a broker is reached is the concern of who builds the listener.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, final

from attrs import define

from lanemq.sdk import BrokerUnreachable, LanemqError, RemotingClient
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ....net._answers import Answer
from ....net._session import Session
from ....net._turns import read_answer
from ....net.limits._quotas import HOST_SHARE, PeerQuota
from ....sessions.values._shared import ANY_CODE
from ._questions import AskedT, Question, ToldT

ASKED_MAX: Final = 16_000
"""Answers of one broker that all clients of a listener wait for: some less than the pulls that a
broker parks for one peer."""


class Unreachable(Refused):
    """The broker cannot be asked; the client may try again."""

    def __init__(self, broker_name: str, why: object) -> None:
        super().__init__(ResponseCode.SERVICE_NOT_AVAILABLE, f"{broker_name}: {why}")
        self.broker_name = broker_name


class RefusedThere(Refused):
    """The refusal that another broker answered with."""


class SegmentBroker(Protocol):
    """A broker that holds segments of logical queues."""

    async def call(
        self, question: Question[AskedT, ToldT], asked: AskedT, timeout_s: float
    ) -> ToldT:
        """Ask a question of the listener's own.

        Raises ``Refused`` as the handler here does, ``RefusedThere`` as another broker answers,
        and what ``ask`` raises.
        """

    async def ask(self, frame: Frame, session: Session, timeout_s: float) -> Answer:
        """Forward a request of the client behind ``session``; return the answer, whatever its code.

        Raises ``Refused`` (SERVICE_NOT_AVAILABLE: clients of all versions try another broker) if
        the broker does not answer, and as ``Unreachable`` if it cannot be asked at all: then
        nothing of the request was done.
        """


Reach = Callable[[str, str | None], SegmentBroker]
"""Returns the broker of a name and an address; None stands for an unknown address."""


@final
@define(eq=False, kw_only=True, repr=False)
class RemoteBroker:
    """A broker that gets requests over a link."""

    _client: RemotingClient
    _name: str
    _address: str | None
    _asking: "Asking"

    async def call(
        self, question: Question[AskedT, ToldT], asked: AskedT, timeout_s: float
    ) -> ToldT:
        """Send the question as a request, and read its answer."""
        answer = await self._request(question.encode(asked), timeout_s)
        return await read_answer(len(answer.body), partial(answer_to, question, answer))

    async def ask(self, frame: Frame, session: Session, timeout_s: float) -> Frame:
        """Send the request as it is.

        Raises ``Refused`` (SYSTEM_BUSY) where clients at one address wait for too many answers.
        """
        places, host = self._asking.places(self._name), session.peer.host
        if not places.has_room(host):
            remark = (
                f"clients at {host} wait for {places.held_by(host)} answers of {self._name} by "
                f"this listener, their share of the {ASKED_MAX} that there may be"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        places.take(host)
        try:
            return await self._request(frame, timeout_s)
        finally:
            places.give_back(host)

    async def _request(self, frame: Frame, timeout_s: float) -> Frame:
        if self._address is None:
            raise Unreachable(self._name, "no name server knows its address")
        try:
            if frame.flag & FLAG_ONEWAY:
                await self._client.oneway(self._address, frame)
                return frame.reply()
            return await self._client.call(self._address, frame, timeout_s, accept=ANY_CODE)
        except BrokerUnreachable as error:
            raise Unreachable(self._name, error) from error
        except LanemqError as error:
            remark = f"{self._name}: {error}"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error


@final
class Asking:
    """The requests of clients that other brokers have yet to answer.

    Such a broker has all of them from one peer, the listener, and a share for it: so the clients
    at one address get a share of that.
    """

    def __init__(self) -> None:
        self._places: dict[str, PeerQuota[str]] = {}

    def places(self, broker: str) -> PeerQuota[str]:
        """Return the places at a broker, by the addresses of clients."""
        places = self._places.get(broker)
        if places is None:
            places = self._places[broker] = PeerQuota(ASKED_MAX, share=HOST_SHARE)
        return places


def over_links(client: RemotingClient) -> Reach:
    """Reach brokers over the links of a client."""
    asking = Asking()
    return lambda name, address: RemoteBroker(
        client=client, name=name, address=address, asking=asking
    )


def answer_to(question: Question[AskedT, ToldT], answer: Frame) -> ToldT:
    """Read another broker's answer to a question. Raises ``RefusedThere``."""
    if answer.code not in question.codes:
        raise RefusedThere(answer.code, answer.remark or "")
    return question.decode(answer)
