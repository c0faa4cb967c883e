"""The claims at name servers, and the copies of other brokers' claims at a broker."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import Document
from lanemq.wire import ProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import KVTable
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import DeleteKVConfig, GetKVListByNamespace, PutKVConfig
from lanemq.wire.kv import (
    CLAIMS_NAMESPACE,
    KNOWN_BROKERS_FIELD,
    Claim,
    ClaimKey,
    claim_key,
    encode_claim,
    parse_claims,
)

from ...net._turns import read_answer
from ..cluster._peers import Peers, read_brokers

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
OTHERS_MAX: Final = 4096
"""Claims, and names, of other brokers that are copied here; name servers keep the rest."""
DELETIONS_MAX: Final = 256
"""Claims that one look deletes at a name server; anybody may have written any number there."""


@final
@define(eq=False, kw_only=True, repr=False)
class ClaimTables:
    """The tables of claims at all name servers of one broker; ``own`` are its own claims."""

    _broker_name: str
    _document: Document
    _own: Callable[[], Mapping[str, Claim]]
    _peers: Peers
    others: dict[ClaimKey, Claim] = field(init=False, factory=dict)
    """The claims of other brokers."""
    brokers: set[str] = field(init=False, factory=set)
    """The names of other brokers that were ever seen."""
    connections: dict[str, int | None] = field(init=False, factory=dict)
    """Name server -> number of the connection over which it was asked the last time."""
    _knows_one_broker: set[str] = field(init=False, factory=set)
    """The name servers that never knew another broker than this one."""
    _one_at_a_time: trio.Lock = field(init=False, factory=trio.Lock)
    _kept: tuple[dict[ClaimKey, Claim], set[str]] = field(init=False)
    """The copies of claims and the names as they were written last."""
    _of: dict[str, dict[ClaimKey, Claim]] | None = field(init=False, default=None)
    """The claims of other brokers by namespace; None until they are asked for again."""

    def __attrs_post_init__(self) -> None:
        kept = self._document.load(after_crash=True)
        table, names = kept.get("claims"), kept.get("brokers")
        if isinstance(table, dict):
            texts = {str(key): str(value) for key, value in table.items()}
            self.others = parse_claims(texts)
        self.brokers = {str(name) for name in names} if isinstance(names, list) else set()
        self._kept = dict(self.others), set(self.brokers)

    @property
    def is_alone(self) -> bool:
        """True if neither this broker nor any of its name servers ever knew another broker.

        Name servers of Apache do not say whether they did.
        """
        servers = self._peers.name_servers
        return bool(servers) and not self.brokers and self._knows_one_broker.issuperset(servers)

    def of(self, namespace: str) -> Mapping[ClaimKey, Claim]:
        """Return the claims of other brokers to a namespace."""
        if self._of is None:
            self._of = {}
            for key, claim in self.others.items():
                self._of.setdefault(key[0], {})[key] = claim
        return self._of.get(namespace, {})

    async def sync(self) -> bool:
        """Bring all name servers and the copies here up to date; returns whether any answered."""
        servers = self._peers.name_servers
        if not servers:
            return False
        answered: list[str] = []

        async def one(server: str) -> None:
            if await self._sync_at(server):
                answered.append(server)

        async with self._one_at_a_time:
            async with trio.open_nursery() as nursery:
                for server in servers:
                    nursery.start_soon(one, server)
            await self._keep()
        return bool(answered)

    async def _sync_at(self, server: str) -> bool:
        present = await self._see_brokers(server)
        header = GetKVListByNamespace(namespace=CLAIMS_NAMESPACE)
        asked = request(RequestCode.GET_KVLIST_BY_NAMESPACE, header.to_fields())
        answer = await self._peers.ask_name_server(server, asked)
        number = self._peers.connection_number(server)  # the one that was asked
        found = None if answer is None else await _read(answer)
        if found is None:
            return False
        has_forgotten = number != self.connections.get(server)
        lost = self._compare(found, present if has_forgotten else None)
        own = self._own()
        for key, claim in (lost | self.keyed(own)).items():
            if found.get(key) != claim:
                await self._put(server, key, claim)
        old = [key for key in found if key[1] == self._broker_name and key[0] not in own]
        for key in old[:DELETIONS_MAX]:
            await self._delete(server, key)
        self.connections[server] = number
        return True

    def _compare(
        self, found: Mapping[ClaimKey, Claim], present: Collection[str] | None
    ) -> dict[ClaimKey, Claim]:
        """Take over the claims of other brokers at a name server; return what it lacks.

        A claim that it lacks was removed, unless the name server may have been started again
        since the last look: then ``present`` has the brokers that speak for themselves.
        """
        self._of = None
        for key, claim in found.items():
            is_known = key in self.others
            if key[1] != self._broker_name and (is_known or len(self.others) < OTHERS_MAX):
                self.others[key] = claim
        missing = {key: claim for key, claim in self.others.items() if key not in found}
        if present is None:
            present = {broker for _, broker in missing}
        for key in [key for key in missing if key[1] in present]:
            del self.others[key], missing[key]
        return missing

    def keyed(self, own: Mapping[str, Claim]) -> dict[ClaimKey, Claim]:
        """Return own claims by namespace and broker."""
        return {(namespace, self._broker_name): claim for namespace, claim in own.items()}

    async def _see_brokers(self, server: str) -> set[str]:
        """Note the brokers that a name server lists, and return them."""
        asked = request(RequestCode.GET_BROKER_CLUSTER_INFO, {KNOWN_BROKERS_FIELD: ""})
        answer = await self._peers.ask_name_server(server, asked)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return set()
        try:
            names = set(await read_brokers(answer))
        except ProtocolError as error:
            LOGGER.warning("the cluster info of %s cannot be read: %s", server, error)
            return set()
        known = answer.fields.get(KNOWN_BROKERS_FIELD)
        if known == "1" and names == {self._broker_name}:
            self._knows_one_broker.add(server)
        else:
            self._knows_one_broker.discard(server)
        for name in names:
            if name != self._broker_name and len(self.brokers) < OTHERS_MAX:
                self.brokers.add(name)
        return names

    async def _put(self, server: str, key: ClaimKey, claim: Claim) -> None:
        header = PutKVConfig(CLAIMS_NAMESPACE, claim_key(*key), encode_claim(claim))
        asked = request(RequestCode.PUT_KV_CONFIG, header.to_fields())
        _note(server, key, await self._peers.ask_name_server(server, asked))

    async def _delete(self, server: str, key: ClaimKey) -> None:
        header = DeleteKVConfig(CLAIMS_NAMESPACE, claim_key(*key))
        asked = request(RequestCode.DELETE_KV_CONFIG, header.to_fields())
        _note(server, key, await self._peers.ask_name_server(server, asked))

    async def _keep(self) -> None:
        """Write the copies, if they have changed; after an error the next change does it."""
        now = dict(self.others), set(self.brokers)
        if now == self._kept:
            return
        table = {claim_key(*key): encode_claim(claim) for key, claim in self.others.items()}
        members: dict[str, object] = {
            "brokers": sorted(self.brokers),
            "claims": dict(sorted(table.items())),
        }
        try:
            self._document.write(members)
            await self._document.sync()
        except OSError as error:
            LOGGER.warning("%s cannot be written, next try soon: %s", self._document.path, error)
        else:
            self._kept = now


async def _read(answer: Frame) -> Mapping[ClaimKey, Claim] | None:
    """Return the claims of an answer, none where there is no table; None for any other answer."""
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return {}
    if answer.code != ResponseCode.SUCCESS:
        return None
    body = answer.body
    try:
        return await read_answer(len(body), lambda: parse_claims(KVTable.decode(body).table))
    except ProtocolError as error:
        LOGGER.warning("the claims at a name server cannot be read: %s", error)
        return None


def _note(server: str, key: ClaimKey, answer: Frame | None) -> None:
    if answer is not None and answer.code != ResponseCode.SUCCESS:
        LOGGER.warning(
            "name server %s does not keep that broker %s has namespace %s: %s",
            server,
            key[1],
            key[0],
            answer.remark,
        )
