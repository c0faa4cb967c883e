"""The routes that a logical listener knows: places of the segments of its topics.

Name servers are asked as a client is that knows logical queues. What brokers say in redirects
is newer than that, goes into the same chains, and is not taken back by an older view. A name
server that does not answer takes nothing away, and one that lists less than was known has to be
confirmed by the brokers: it may have just started.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import request
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG, Chain, LogicalQueues, RecentRedirects, Redirect

from ._accounts import BrokerAccounts, OwnAccount, told_by_brokers
from ._addresses import BrokerAddresses
from ._views import TopicView, missing_in, read_view

LOGGER = get_logger("lanemq.proxy.logical.listener", by_peers=True)

FRESH_S: Final = 10.0
"""Seconds after which routes are asked for again."""
RETRY_S: Final = 1.0
"""Seconds for which a question without an answer, or without use, is not repeated."""
ASK_S: Final = 3.0
PATIENCE_S: Final = 0.5
"""Seconds for which a request waits for a newer view if there is one already: an answer of a name
server takes less, and one that does not answer holds nothing up."""
AT_ONCE: Final = 64
"""Most topics that are asked for at once."""
TOPICS_MAX: Final = 100_000
"""Most topics remembered; beyond it all are forgotten. Only a broken peer asks for so many."""

_ANSWERS: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST})


@dataclass(slots=True)
class _Known:
    view: TopicView | None
    asked_s: float
    had_use: bool
    """True if the last question brought anything new, or redirects have since."""
    is_told: bool
    """True if a name server told the view, but for the queues in ``redirected``."""
    redirected: set[int]
    """Logical queues that redirects have changed in the view."""
    redirects: RecentRedirects
    brokers: int
    """The view's, or those of the last one where name servers do not know the topic now."""
    is_answered: bool
    """True if a name server answered the last question."""


@final
class LogicalRoutes:
    """The views of all topics. ``get`` never waits; ``find`` and ``refresh`` may."""

    def __init__(
        self, client: RemotingClient, name_servers: Sequence[str], own: OwnAccount | None
    ) -> None:
        self._client = client
        self._name_servers = list(name_servers)
        self._known: dict[str, _Known] = {}
        self._accounts = BrokerAccounts(client=client, own=own)
        self._addresses = BrokerAddresses(client, name_servers, own)
        self._asking: dict[str, trio.Event] = {}
        self._to_ask, self._asked = trio.open_memory_channel[str](math.inf)

    async def run(self) -> None:
        """Ask for the routes that others wait for, until cancelled."""
        limit = trio.CapacityLimiter(AT_ONCE)
        for topic in self._asking:  # of a run that has failed
            self._to_ask.send_nowait(topic)
        async with trio.open_nursery() as nursery:
            async for topic in self._asked:
                nursery.start_soon(self._look_up, topic, limit)

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
            self._known[topic] = _Known(
                view,
                -math.inf,
                had_use=True,
                is_told=False,
                redirected=set(),
                redirects=RecentRedirects(),
                brokers=view.brokers,
                is_answered=False,
            )

    async def refresh(self, topic: str) -> TopicView | None:
        """Ask now, unless that has just failed. Without an answer, nothing changes."""
        done = self._asking.get(topic)
        if done is None:
            known = self._known.get(topic)
            now_s = trio.current_time()
            if known is not None and not known.had_use and now_s - known.asked_s < RETRY_S:
                await trio.lowlevel.checkpoint()
                return known.view
            # Not by this task: it may be given up, and others wait for the answer then.
            done = self._asking[topic] = trio.Event()
            self._to_ask.send_nowait(topic)
        await done.wait()
        return self.get(topic)

    async def _look_up(self, topic: str, limit: trio.CapacityLimiter) -> None:
        done = self._asking[topic]
        async with limit:
            known = await self._asked_for(topic)
        if len(self._known) >= TOPICS_MAX:
            self._known.clear()
        self._known[topic] = known
        del self._asking[topic]
        done.set()

    async def _asked_for(self, topic: str) -> _Known:
        """Ask name servers for a topic, and brokers for what these do not list."""
        known = self._known.get(topic)
        before = known.view if known is not None else None
        brokers = known.brokers if known is not None else self._accounts.brokers_of(topic)
        expected = self._accounts.with_own(topic, before)
        told, is_answered = await self._ask(topic, expected, brokers)
        view, redirected = None, set[int]()
        if is_answered:
            view, redirected = await self._completed(topic, told, expected, brokers)
        known = self._known.get(topic)  # redirects may have come meanwhile
        before = known.view if known is not None else None
        redirects = known.redirects if known is not None else RecentRedirects()
        if not is_answered:
            view = self._accounts.with_own(topic, before)
        elif view is not None:
            for redirect in redirects.unheard(view.queues, trio.current_time()):
                view = view.with_redirect(redirect)
                redirected.add(redirect.current.logical_index)
        return _Known(
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
        missing = missing_in(told, known)
        if told is not None and not missing:
            closed = self._accounts.closed(topic, known, told, {}, trio.current_time())
            return told.with_segments(*closed), {segment.logical_index for segment in closed}
        addresses: dict[str, str | None] = {}
        if known is not None:
            addresses |= {s.broker_name: known.address(s.broker_name) for s in missing}
        if told is None and not missing:
            addresses |= await self._addresses.ask()
        accounts = await self._accounts.ask(topic, addresses)
        now_s = trio.current_time()
        kept = self._accounts.kept(topic, missing, accounts, now_s)
        if told is None:
            kept += told_by_brokers(accounts)
            if not kept:
                return None, set()
            told = TopicView(LogicalQueues(), {}, brokers)
        told_by_others = {name: address for name, address in addresses.items() if address}
        known_addresses = known.addresses if known is not None else {}
        view = TopicView(
            told.queues, {**told_by_others, **known_addresses, **told.addresses}, told.brokers
        )
        view = view.with_segments(*kept)
        kept += self._accounts.closed(topic, known, view, accounts, now_s)
        return view.with_segments(*kept), {segment.logical_index for segment in kept}

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
                view = read_view(answer, brokers=brokers)
            except (LanemqError, RemoteProtocolError) as error:
                LOGGER.info(
                    "name server %s does not tell the route of %s: %s", server, topic, error
                )
                continue
            is_answered = True
            if view is None:
                continue
            self._addresses.note(view.addresses)
            lacks = len(missing_in(view, expected))
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
