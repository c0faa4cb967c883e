"""The first attempt of a send, made by a thread other than the core's.

Most sends need no more, and so no task of the core. What the first attempt does not settle, a task
continues.
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

import msgspec

from lanemq.wire.bodies import MASTER_ID, MessageQueue
from lanemq.wire.frame import Frame

from .._errors import ClientClosed
from .._messages import Message, SendResult
from .._options import ProducerOptions
from ..net._client import Client
from ..net._link import Link
from ..net._remoting import accepted
from ..net._route_table import TopicRoute
from ._outgoing import Outgoing, prepare, seconds_within
from ._selectors import HashSelector, Target, target_of
from ._send_targets import NOWHERE, SendTargets
from ._sent import STATUSES, read_sent

HANGING_SHARE: Final = 0.5
"""Share of the time left that a broker may take while there are others to try."""
OURS: Final = (MessageQueue, HashSelector, type(None))
"""Targets for which no function of the application is called."""


def share_of(left_s: float, route: TopicRoute, *, is_last: bool) -> float:
    """Return the part of the time that is left for one attempt: one that hangs must not use it
    all."""
    return left_s if is_last or len(route.brokers) < 2 else left_s * HANGING_SHARE


@final
class FirstAttempt(msgspec.Struct, gc=False):
    """A request that is ready or under way, and all that a second one needs."""

    outgoing: Outgoing
    target: MessageQueue | None
    """The queue that was asked for, if one was."""
    route: TopicRoute
    queue: MessageQueue
    started_s: float
    timeout_s: float
    """The seconds that all attempts may take."""
    limit_s: float
    """The seconds that this one may take."""
    address: str
    link: Link
    number: int
    data: bytes
    resume: "Callable[[FirstAttempt], Awaitable[SendResult]]"
    """Does what ``Sender.send`` does after such a first attempt."""
    answer: object = None

    def submit(
        self,
        on_answer: Callable[[object], object],
        post: Callable[[Callable[[], object]], object],
    ) -> bool:
        """Send the request; return False if nothing was sent: something has to be waited for.

        ``on_answer`` is called once, in the core's thread, with what ``answer`` is to be; ``post``
        has a function called there.
        """
        deadline_s = self.started_s + self.limit_s
        return self.link.submit(self.data, self.number, deadline_s, on_answer, post)

    # The core's thread

    def forget(self) -> None:
        """Drop the request: its answer goes nowhere."""
        self.link.forget(self.number)
        self.link.tend()  # whoever was interrupted may not have asked for it

    @property
    def is_stored(self) -> bool:
        """True if the broker has answered that it stored the message as it was to."""
        return isinstance(self.answer, Frame) and self.answer.code == 0

    def result(self) -> SendResult:
        """Return the result, or raise what the attempt failed with, as ``Sender.send``.

        The answer is taken: an error that is raised must not be kept by what its frames know.
        """
        answer, self.answer = self.answer, None
        frame = self.link.answered(answer, self.outgoing.code, self.limit_s)
        accepted(frame, STATUSES, self.address)
        return read_sent(self.outgoing, frame, self.queue, self.address)


@final
class FirstAttempts:
    """Makes first attempts, in any thread: of sends for which the core calls no function of the
    application."""

    def __init__(
        self,
        client: Client,
        group: str,
        options: ProducerOptions,
        targets: SendTargets,
        resume: Callable[[FirstAttempt], Awaitable[SendResult]],
        *,
        is_watched: bool,
    ) -> None:
        self._client = client
        self._group = group
        self._options = options
        self._targets = targets
        self._resume = resume
        alters = options.interceptors or options.codec is not None
        watched = is_watched or options.avoid_slow_brokers or options.client.telemetry
        self._is_allowed = not (alters or watched)
        self._closed = False

    def close(self) -> None:
        """Have ``prepare`` raise ``ClientClosed`` from now on."""
        self._closed = True

    def prepare(
        self,
        message: Message,
        *,
        queue: Target | None = None,
        queue_key: str | int | None = None,
        timeout_s: float | None = None,
    ) -> FirstAttempt | None:
        """Make the request ready with which ``Producer.send`` would begin.

        Returns None if something has to be waited for, or called, before. Raises as
        ``Producer.send`` before anything is sent.
        """
        if self._closed:
            raise ClientClosed("producer")
        if not self._is_allowed or not isinstance(queue, OURS):
            return None
        client, options = self._client, self._options
        outgoing = prepare(message, options, client.unique_keys, client.clock_ms())
        target = None
        if queue is not None or queue_key is not None:
            target = target_of(queue, queue_key, message)
        within_s = seconds_within(timeout_s, options)
        route = self._targets.known(outgoing.topic)
        if (
            route is None
            or not route.publish_queues
            or route.chains is not None
            or outgoing.asks_version
        ):
            return None
        if target is not None and not isinstance(target, MessageQueue):
            target = target(route.publish_queues)
        chosen = target or self._targets.choose(route, None)
        address = route.brokers.get(chosen.broker_name, NOWHERE).get(MASTER_ID)
        link = None if address is None else client.remoting.known_link(address)
        if address is None or link is None:
            return None
        number = link.next_number()
        frame = outgoing.frame(self._group, chosen, options, client.clock_ms(), 0, number)
        is_last = target is not None or not options.retries
        return FirstAttempt(
            outgoing,
            target,
            route,
            chosen,
            client.clock_s(),
            within_s,
            share_of(within_s, route, is_last=is_last),
            address,
            link,
            number,
            client.remoting.encoded(frame, address),
            self._resume,
        )
