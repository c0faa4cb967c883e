"""The namespaces of keys at a proxy: each is a topic of the upstream cluster, followed as a whole.

A namespace is there for all proxies once its topic is. Every proxy looks for new topics every few
seconds, and for the topic of a namespace that is asked for at once. One whose log is known stays
there where the cluster has lost that: it is not served, and does not begin again.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RemotingClient
from lanemq.sdk.admin import AdminClient
from lanemq.wire import ProtocolError, Refused, ResponseCode
from lanemq.wire.kv import (
    DEFAULT_NAMESPACE,
    PARTITIONS_MAX,
    Claim,
    claim_key,
    encode_claim,
    namespace_problem,
)

from ...net.limits._quotas import HOST_SHARE, has_share
from ...net.limits._rotation import Rotation
from ._choice import LogSplit
from ._keys import CALL_S, UpstreamKeys
from ._known_logs import PREFIX, KnownLogs
from ._make_keys import make_upstream_keys
from ._queue import NotYet
from ._topics import find_log

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
LOOK_S: Final = 5.0
"""Seconds between two looks for topics of new namespaces."""
MISSING_S: Final = 1.0
"""Seconds for which a namespace that is missing is not looked for again."""
MISSING_MAX: Final = 1000
BUSY: Final = (
    "clients at {} ask for more namespaces of keys than can wait to be looked for; try again in a "
    "moment"
)


@final
class KeyNamespaces:
    """The namespaces of one proxy; ``run`` is its task."""

    def __init__(
        self,
        client: RemotingClient,
        name_servers: Sequence[str],
        *,
        broker: str | None = None,
        known: KnownLogs | None = None,
    ) -> None:
        """``broker`` is where new topics are created, by default at the first by name; ``known`` is
        what this proxy knows of their logs."""
        self._client = client
        self._admin = AdminClient(client, name_servers, timeout_s=CALL_S)
        self._broker = broker
        self._known = KnownLogs(None) if known is None else known
        self._nursery: trio.Nursery | None = None
        self.opened: dict[str, UpstreamKeys] = {}
        """Namespace -> its keys."""
        self.on_opened: list[Callable[[UpstreamKeys], None]] = []
        """Callbacks for a namespace that is followed from now on."""
        self._turns = Rotation[trio.Event]()
        self._made = Counter[str]()
        self._missing: dict[str, float] = {}
        """Namespace that was looked for -> the time until which it counts as missing."""

    async def run(self) -> None:
        """Follow the namespaces, and look for new ones, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                while True:
                    await self._look()
                    await trio.sleep(LOOK_S)
            finally:
                self._nursery = None

    async def _look(self) -> None:
        try:
            topics = await self._admin.topics()
        except (LanemqError, ProtocolError) as error:
            LOGGER.info("topics of keys are not known now: %s", error)
            topics = []
        found = {topic.removeprefix(PREFIX) for topic in topics if topic.startswith(PREFIX)}
        for namespace in sorted(found.union(self._known.namespaces)):
            if namespace_problem(namespace) or namespace in self.opened:
                continue
            try:
                await self.open(namespace)
            except Refused as error:
                LOGGER.warning("namespace %s of keys is not served: %s", namespace, error.remark)

    async def open(
        self, namespace: str, *, partitions: int | None = None, host: str | None = None
    ) -> UpstreamKeys:
        """Return the keys of a namespace for a client at ``host``, or for the proxy itself; with
        ``partitions`` it is created if it is missing.

        Raises ``Refused``: INVALID_PARAMETER, KV_NAMESPACE_NOT_EXIST, SERVICE_NOT_AVAILABLE while
        the cluster does not say where it is, SYSTEM_BUSY beyond the shares of an address.
        """
        found = self.opened.get(namespace)
        if found is not None:
            return found
        problem = namespace_problem(namespace)
        if problem is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, problem)
        self._check_missing(namespace, partitions)
        if not self._turns.has_room(host):
            raise Refused(ResponseCode.SYSTEM_BUSY, BUSY.format(host))
        turn = trio.Event()
        self._turns.put(host, turn)
        self._begin_turns()
        try:
            await turn.wait()
            found = self.opened.get(namespace)
            if found is not None:
                return found
            self._check_missing(namespace, partitions)
            return await self._open(namespace, partitions, host)
        finally:
            if turn.is_set():
                self._turns.done(host)
            else:
                self._turns.discard(host, turn)
            self._begin_turns()

    def _begin_turns(self) -> None:
        while (begun := self._turns.next()) is not None:
            begun[1].set()

    def _check_missing(self, namespace: str, partitions: int | None) -> None:
        """Raises ``Refused`` for one that was found missing a moment ago, and is not created."""
        if partitions is None and self._missing.get(namespace, 0.0) > trio.current_time():
            raise self._no_namespace(namespace)

    async def _open(self, namespace: str, partitions: int | None, host: str | None) -> UpstreamKeys:
        try:
            found = await self._found(namespace)
        except (NotYet, LogSplit, trio.TooSlowError) as error:
            remark = f"namespace {namespace} of keys is not open yet: {error}"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        opened = self.opened.get(namespace)
        if opened is not None:  # by another look meanwhile
            return opened
        creates = found is None and partitions is not None
        if found is not None:
            partitions = found
        elif partitions is None and namespace != DEFAULT_NAMESPACE:
            self._note_missing(namespace)
            raise self._no_namespace(namespace)
        count = partitions or 1
        if count + sum(len(keys.logs) for keys in self.opened.values()) > PARTITIONS_MAX:
            remark = (
                f"a proxy has at most {PARTITIONS_MAX} namespaces, or partitions of them; "
                f"{namespace} would be more"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        if creates and host is not None:
            self._check_share(namespace, count, host)
        if self._nursery is None:
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the proxy is starting or stopping")
        keys = self.opened[namespace] = make_upstream_keys(
            self._client,
            self._admin,
            namespace=namespace,
            partitions=count,
            broker=self._broker,
            known=self._known.of(namespace),
        )
        self._nursery.start_soon(keys.run)
        self._missing.pop(namespace, None)
        for tell in self.on_opened:
            tell(keys)
        return keys

    async def _found(self, namespace: str) -> int | None:
        """Return the number of partitions of a namespace, by its log as it is known, or else by its
        topic; None where there is none. Raises ``NotYet``, ``LogSplit``, ``trio.TooSlowError``."""
        if (known := self._known.expected(namespace)) is not None:
            return len(known.births)
        with trio.fail_after(CALL_S):
            found = await find_log(self._client, self._admin, PREFIX + namespace)
        if found is not None:
            return found.queues
        self._known.check_heard(namespace)
        known = self._known.expected(namespace)  # another proxy may have said meanwhile
        return None if known is None else len(known.births)

    def _check_share(self, namespace: str, count: int, host: str) -> None:
        """Note partitions that a client makes. Raises ``Refused`` beyond the share of its address,
        since the start."""
        held = self._made[host]
        free = PARTITIONS_MAX - sum(len(keys.logs) for keys in self.opened.values())
        if not has_share(held + count - 1, free - count + 1, HOST_SHARE):
            remark = (
                f"clients at {host} have made {held} of the {PARTITIONS_MAX} namespaces, or "
                f"partitions of them, that a proxy has at most; {namespace} would be more than "
                "their share"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        self._made[host] += count

    def _note_missing(self, namespace: str) -> None:
        if len(self._missing) >= MISSING_MAX:
            self._missing.clear()
        self._missing[namespace] = trio.current_time() + MISSING_S

    @staticmethod
    def _no_namespace(namespace: str) -> Refused:
        remark = f"there is no namespace {namespace!r} of keys in this cluster"
        return Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)

    def claims(self, broker_name: str) -> Mapping[str, str]:
        """Return the table by which clients find namespaces (``lanemq.wire.kv.Claim``): all are at
        ``broker_name``, a broker whose port is this proxy's.

        The default namespace is in it even before it is created: its first write does that. So is
        one whose log is known and cannot be read: who asks for it hears why.
        """
        table = dict[str, str]()
        if DEFAULT_NAMESPACE not in self.opened:
            table[claim_key(DEFAULT_NAMESPACE, broker_name)] = encode_claim(Claim(here=(0,)))
        for namespace, keys in self.opened.items():
            meta = keys.logs[0].state.meta
            key = claim_key(namespace, broker_name)
            is_there = meta.identity or self._known.is_known(namespace)
            if is_there and not meta.deleted:
                count = len(keys.logs)
                claim = Claim(identity=meta.identity, partitions=count, here=tuple(range(count)))
                table[key] = encode_claim(claim)
        return table
