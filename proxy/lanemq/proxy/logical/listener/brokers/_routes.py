"""The routes that a logical listener knows: places of the segments of its topics.

Name servers are asked as a client is that knows logical queues. What brokers say in redirects
is newer than that, goes into the same chains, and is not taken back by an older view. A name
server that does not answer takes nothing away, and one that lists less than was known has to be
confirmed by the brokers: it may have just started.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG, Chain, LogicalQueues, RecentRedirects, Redirect

from ....net._loop_watch import asking_host
from ....net._turns import read_answer
from ....net.limits._names import is_name_too_long
from ....net.limits._rotation import Owner, Rotation
from ._accounts import BrokerAccounts, OwnAccount, told_by_brokers
from ._addresses import BrokerAddresses
from ._known import Known, KnownTopics
from ._views import SEGMENT_BYTES, TopicView, addresses_in, missing_in, read_view

LOGGER = get_logger("lanemq.proxy.logical.listener", by_peers=True)

FRESH_S: Final = 10.0
"""Seconds after which routes are asked for again."""
RETRY_S: Final = 1.0
"""Seconds for which a question without an answer, or without use, is not repeated."""
ASK_S: Final = 3.0
PATIENCE_S: Final = 0.5
"""Seconds for which a request waits for a newer view if there is one already: an answer of a name
server takes less, and one that does not answer holds nothing up."""

BUSY: Final = (
    "the routes of too many topics are asked for by clients at {}: name servers do not answer, or "
    "not as fast; try again in a moment"
)

_ANSWERS: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST})


@final
class LogicalRoutes:
    """The views of all topics. ``get`` never waits; ``find`` and ``refresh`` may."""

    def __init__(
        self, client: RemotingClient, name_servers: Sequence[str], own: OwnAccount | None
    ) -> None:
        self._client = client
        self._name_servers = list(name_servers)
        self._known = KnownTopics()
        self._accounts = BrokerAccounts(client=client, own=own)
        self._addresses = BrokerAddresses(client, name_servers, own)
        self._asking: dict[str, tuple[Owner, trio.Event]] = {}
        self._waiting = Rotation[str]()

    async def run(self) -> None:
        """Ask for the routes that others wait for, until cancelled."""
        self._waiting = Rotation[str]()
        for topic, (owner, _) in self._asking.items():  # of a run that has failed, or not begun
            self._waiting.put(owner, topic)
        async with trio.open_nursery() as nursery:
            while True:
                owner, topic = await self._waiting.take()
                nursery.start_soon(self._look_up, owner, topic)

    def get(self, topic: str) -> TopicView | None:
        """Return the known view; None for a topic that has no logical queues, or is unknown."""
        known = self._known.get(topic)
        return None if known is None else known.view

    def chain(self, topic: str, index: int) -> Chain | None:
        """Return the known segments of a logical queue; None for one that does not exist, or is
        unknown."""
        view = self.get(topic)
        return None if view is None else view.chain(index)

    def is_fresh(self, topic: str, *, now_s: float) -> bool:
        """Return whether ``get`` can be relied on without asking."""
        known = self._known.get(topic)
        return known is not None and now_s - known.asked_s < FRESH_S

    async def is_complete(self, topic: str) -> bool:
        """Return whether a name server that lists all brokers told the topic's queues, or that it
        has none. Otherwise others may know more."""
        known = self._known.get(topic)
        if known is None or not (known.is_told or (known.is_answered and known.view is None)):
            return False
        return await self._addresses.are_listed()

    async def find(self, topic: str) -> TopicView | None:
        """Return the view, asked for if it is not fresh; a known one is waited for but shortly."""
        if not self.is_fresh(topic, now_s=trio.current_time()):
            self._begin_with_own(topic)
            patience_s = math.inf if self.get(topic) is None else PATIENCE_S
            with trio.move_on_after(patience_s):
                await self.refresh(topic)
        return self.get(topic)

    def _begin_with_own(self, topic: str) -> None:
        """Make what this process's broker has on its disk the first view of a topic."""
        view = self._accounts.with_own(topic, None) if topic not in self._known else None
        if view is not None:
            own = Known(
                view,
                -math.inf,
                had_use=True,
                is_told=False,
                redirected=set(),
                redirects=RecentRedirects(),
                brokers=view.brokers,
                is_answered=False,
            )
            self._known.put(topic, own)

    async def refresh(self, topic: str) -> TopicView | None:
        """Ask now, unless that has just failed. Without an answer, nothing changes.

        Raises ``Refused`` (SYSTEM_BUSY) for a topic of which nothing is known, where the address
        that asks waits for as many as it may.
        """
        if is_name_too_long(topic):  # no broker has it, and names of any length would be kept
            await trio.lowlevel.checkpoint()
            return None
        _, done = self._asking.get(topic, (None, None))
        if done is None:
            known = self._known.get(topic)
            now_s = trio.current_time()
            if known is not None and not known.had_use and now_s - known.asked_s < RETRY_S:
                await trio.lowlevel.checkpoint()
                return known.view
            # Not by this task: it may be given up, and others wait for the answer then.
            owner, done = asking_host(), trio.Event()
            if not self._waiting.has_room(owner):
                await trio.lowlevel.checkpoint()
                if known is None or known.view is None:
                    raise Refused(ResponseCode.SYSTEM_BUSY, BUSY.format(owner))
                return known.view
            self._asking[topic] = owner, done
            self._waiting.put(owner, topic)
        await done.wait()
        return self.get(topic)

    async def _look_up(self, owner: Owner, topic: str) -> None:
        known = await self._asked_for(topic)
        self._waiting.done(owner)
        self._known.put(topic, known)
        _, done = self._asking.pop(topic)
        done.set()

    async def _asked_for(self, topic: str) -> Known:
        """Ask name servers for a topic, and brokers for what these do not list."""
        known = self._known.get(topic)
        before = known.view if known is not None else None
        brokers = known.brokers if known is not None else self._accounts.brokers_of(topic)
        asked_with, size_bytes = before, 0 if before is None else before.size_bytes
        with_own = partial(self._accounts.with_own, topic, before)
        expected = await read_answer(size_bytes, with_own)
        told, is_answered = await self._ask(topic, expected, brokers)
        view, redirected = None, set[int]()
        if is_answered:
            view, redirected = await self._completed(topic, told, expected, brokers)
        known = self._known.get(topic)  # redirects may have come meanwhile
        before = known.view if known is not None else None
        redirects = known.redirects if known is not None else RecentRedirects()
        if not is_answered:
            # Mostly it is what was known before. No redirect may come in between.
            is_known = before is asked_with
            view = expected if is_known else self._accounts.with_own(topic, before)
        elif view is not None:
            for redirect in redirects.unheard(view.queues, trio.current_time()):
                view = view.with_redirect(redirect)
                redirected.add(redirect.current.logical_index)
        return Known(
            view,
            trio.current_time(),
            had_use=view != before,
            is_told=told is not None,
            redirected=redirected,
            redirects=redirects,
            brokers=view.brokers if view is not None else brokers,
            is_answered=is_answered,
        )

    async def _completed(
        self, topic: str, told: TopicView | None, known: TopicView | None, brokers: int
    ) -> tuple[TopicView | None, set[int]]:
        """Return a name server's view with the segments that it lacks and their brokers have;
        and the logical queues in which there are any.

        Without a view the brokers' own accounts are the view.
        """
        size_bytes = sum(view.size_bytes for view in (told, known) if view is not None)
        missing = await read_answer(size_bytes, partial(missing_in, told, known))
        if told is not None and not missing:
            closed = self._accounts.closed(topic, known, told, {}, trio.current_time())
            return told.with_segments(*closed), {segment.logical_index for segment in closed}
        addresses: dict[str, str | None] = {}
        if known is not None:
            addresses |= addresses_in(known, missing)
        if told is None and not missing:
            addresses |= await self._addresses.ask()
        accounts = await self._accounts.ask(topic, addresses)
        size_bytes += sum(SEGMENT_BYTES * len(account) for account in accounts.values())
        now_s = trio.current_time()

        def completed() -> tuple[TopicView | None, set[int]]:
            kept = self._accounts.kept(topic, missing, accounts, now_s)
            if told is None:
                kept += told_by_brokers(accounts)
                if not kept:
                    return None, set()
            view = told or TopicView(LogicalQueues(), {}, brokers)
            told_by_others = {name: address for name, address in addresses.items() if address}
            known_addresses = known.addresses if known is not None else {}
            view = replace(view, addresses=told_by_others | {**known_addresses, **view.addresses})
            view = view.with_segments(*kept)
            kept += self._accounts.closed(topic, known, view, accounts, now_s)
            return view.with_segments(*kept), {segment.logical_index for segment in kept}

        # One topic is asked for once at a time, so nobody else changes what is noted of it.
        return await read_answer(size_bytes, completed)

    async def confirm(self, topic: str, index: int) -> bool:
        """Return whether a logical queue is as a name server told it a moment ago; ask if it is
        not.

        Redirects tell of two segments, and there may be others between them. A name server
        shows none behind offsets that may be somewhere.
        """
        now_s = trio.current_time()
        if not self._is_told(topic, index) or now_s - self._known[topic].asked_s >= RETRY_S:
            await self.refresh(topic)
        return self._is_told(topic, index)

    def _is_told(self, topic: str, index: int) -> bool:
        known = self._known.get(topic)
        return known is not None and known.is_told and index not in known.redirected

    async def brokers(self) -> Mapping[str, str]:
        """Ask for all brokers; return name -> address of the master, as ``BrokerAddresses.ask``."""
        return await self._addresses.ask()

    async def _ask(
        self, topic: str, expected: TopicView | None, brokers: int
    ) -> tuple[TopicView | None, bool]:
        """Ask name servers for a topic, until one lists all that is expected of it.

        Returns the most complete view, and whether any of them answered.
        """
        header = GetRouteInfo(topic=topic, sys_flag=LOGICAL_QUEUE_FLAG)
        frame = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_fields())
        best: TopicView | None = None
        lacking, is_answered = math.inf, False
        for server in tuple(self._name_servers):
            try:
                answer = await self._client.call(server, frame, ASK_S, accept=_ANSWERS)
                read = partial(_read, answer, expected, brokers)
                view, lacks = await read_answer(len(answer.body), read)
            except (LanemqError, RemoteProtocolError) as error:
                LOGGER.info(
                    "name server %s does not tell the route of %s: %s", server, topic, error
                )
                continue
            is_answered = True
            if view is None:
                continue
            self._addresses.note(view.addresses)
            if lacks < lacking:
                best, lacking = view, lacks
            if not lacks:  # the one that knows the most is asked first from now on
                self._name_servers.remove(server)
                self._name_servers.insert(0, server)
                break
        return best, is_answered

    async def redirected(self, topic: str, redirect: Redirect | None) -> None:
        """Learn from a redirect; if it names no target, ask a name server, whose word counts."""
        known = self._known.get(topic)
        if redirect is None:
            if known is not None and known.redirects:
                # What they have changed in the view may be wrong, however new it is.
                known.redirects, known.had_use = RecentRedirects(), True
            await self.refresh(topic)
        elif known is not None and known.view is not None:
            known.redirects.note(redirect, trio.current_time())
            view = known.view.with_redirect(redirect)
            if view != known.view:
                known.view, known.had_use = view, True
                known.redirected.add(redirect.current.logical_index)


def _read(answer: Frame, expected: TopicView | None, brokers: int) -> tuple[TopicView | None, int]:
    """Read a name server's view; also return how many segments that are expected it lacks."""
    view = read_view(answer, brokers=brokers)
    return view, len(missing_in(view, expected))
