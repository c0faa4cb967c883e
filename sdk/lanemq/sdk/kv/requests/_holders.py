"""The addresses of a namespace's partitions: found, remembered, corrected by brokers."""

from dataclasses import dataclass, replace
from typing import final

from lanemq.wire.kv import LONE_BROKER, PARTITIONS_MAX, Moved, kv_topic

from ..._errors import LanemqError, NoRoute
from ...admin._client import AdminClient
from ._errors import NamespaceSplit, NoNamespace
from ._route import Holder, KvRoute, find_route


@final
@dataclass(frozen=True, slots=True)
class HolderAddress:
    """The broker to ask for a partition."""

    address: str
    broker: str | None
    """Its name, where it is known."""
    create_at: str | None = None
    """The broker that a write may have the partition made at, where no broker has it."""


@final
class Holders:
    """The holders of one namespace's partitions."""

    def __init__(self, admin: AdminClient, namespace: str, broker: str | None) -> None:
        self.admin = admin
        self.namespace = namespace
        self.named = broker
        """The broker that has the namespace, or is to have it, as the user says."""
        self._partitions: int | None = None
        self.is_sure = False
        """True once a broker has told the number of partitions; name servers may miss some."""
        self.split_at: str | None = None
        """The named broker, if the namespace exists more than once: what it has is meant."""
        self._addresses: dict[int, HolderAddress] = {}
        self._known: dict[int, str] = {}
        """The brokers that have answered for partitions."""

    async def partitions(self) -> int:
        """Return the number of partitions, as far as it is known."""
        if self._partitions is None:
            await self.look()
        return self._partitions or 1

    def agree_on(self, partitions: int) -> bool:
        """Return whether ``partitions`` is the number known now; True while none is known."""
        return partitions == (self._partitions or partitions)

    async def look(self, *, making: bool = False) -> KvRoute:
        """Ask the name servers. What is remembered stays, unless it was forgotten.

        Raises ``NoNamespace`` where the namespace is elsewhere than the user says, unless it is
        looked for by somebody who is ``making`` it.
        """
        route = await find_route(self.admin, self.namespace)
        if not making:
            self.check_named(route, self.named)
        self._check_split(route)
        if self._partitions is None:
            self._partitions = route.partitions
        for partition, holder in (route.holders or {}).items():
            if self.split_at is not None and partition in route.claims[self.split_at].here:
                holder = Holder(self.split_at, None)  # which name servers may not show
            address = self._address(route, holder)
            if holder is not None and address is not None:
                self._addresses.setdefault(partition, HolderAddress(address, holder.broker))
        return route

    def assume(self, partitions: int | None) -> None:
        """Assume a number of partitions, or none, until a broker tells the right one."""
        if not self.is_sure:
            self._partitions = partitions

    async def locate(self, partition: int, *, create_at: str | None = None) -> HolderAddress:
        """Return where to ask for a partition, or where to have it made.

        ``create_at`` is the broker that is to make it if nobody has it. Raises ``NoRoute`` where
        that is not known for the moment, and ``NoNamespace`` where it has to be said.
        """
        found = self._addresses.get(partition)
        if found is None:
            route = await self.look(making=create_at is not None)
            found = self._addresses.get(partition)
        if found is None:
            found = self._addresses[partition] = self._find(route, partition, create_at)
        return found

    def forget(self, partition: int) -> None:
        """Forget the broker of a partition, which is away or knows nothing of it."""
        self._addresses.pop(partition, None)

    def denied(self, partition: int, at: HolderAddress) -> None:
        """Note that a broker does not have the namespace; if it had it, that was deleted."""
        self.forget(partition)
        if at.broker is not None and self._known.get(partition) == at.broker:
            self.reset()

    def reset(self) -> None:
        """Forget everything: the namespace was deleted, and may be another one from now on."""
        self._partitions, self.is_sure = None, False
        self._addresses.clear()
        self._known.clear()

    def answered(self, partition: int, at: HolderAddress) -> None:
        """Note that a broker has the partition, and that there are as many as it was asked for."""
        self.is_sure = True
        if at.broker is not None:
            self._known[partition] = at.broker
        if at.create_at is not None and self._addresses.get(partition) is at:
            self._addresses[partition] = replace(at, create_at=None)

    def moved(self, partition: int, moved: Moved) -> None:
        """Take over what a broker says that does not have the partition."""
        if not 1 <= moved.partitions <= PARTITIONS_MAX:
            raise LanemqError(
                f"a broker takes namespace {self.namespace!r} to have {moved.partitions} partitions"
            )
        if moved.partitions != self._partitions:
            self._addresses.clear()
            self._partitions = moved.partitions
        self.is_sure = True
        self.forget(partition)
        if moved.address is not None and partition < moved.partitions:
            self._addresses[partition] = HolderAddress(moved.address, moved.broker)

    def check_named(self, route: KvRoute, broker: str | None) -> None:
        """Refuse a namespace that is not at the broker that the user names.

        Once it has been found there it may move: that is an operator's doing.
        """
        names = route.names
        if broker is None or not names or broker in names or self._known:
            return
        who = f"broker {names[0]} has" if len(names) == 1 else f"brokers {', '.join(names)} have"
        away = [name for name in names if name not in route.brokers]
        why = f"; {', '.join(away)} is not registered now" if away else ""
        raise self.no_namespace(f"{who} it, and not {broker}{why}")

    def _check_split(self, route: KvRoute) -> None:
        """Choose the named one of several namespaces of one name; refuse to choose any other."""
        found, self.split_at = route.rivals, None
        if len(found) < 2:
            return
        if self.named is None or not any(self.named in brokers for brokers in found.values()):
            raise NamespaceSplit(self.namespace, list(found.values()))
        self.split_at = self.named

    def _find(self, route: KvRoute, partition: int, create_at: str | None) -> HolderAddress:
        """Return the address for a partition whose holder the route does not name."""
        claimed = route.claimed(partition)
        if self.split_at in claimed:
            return self._at(route, self.split_at)
        if route.holders and partition in route.holders:
            holder = route.holders[partition]
            raise self._no_route(
                f"nobody has partition {partition} now: it is being moved"
                if holder is None
                else f"broker {holder.broker} is not registered now"
            )
        if route.listed:
            return self._listed(route, partition)
        if claimed:
            return self._at(route, claimed[0])
        return self._absent(route, partition, create_at)

    @staticmethod
    def _address(route: KvRoute, holder: Holder | None) -> str | None:
        return None if holder is None else route.address_of(holder.broker) or holder.address

    def _listed(self, route: KvRoute, partition: int) -> HolderAddress:
        """Return one of the brokers of a topic without logical queues, as older brokers make it."""
        names = route.listed
        if self._partitions and self._partitions > 1:
            # Only they know who has what: any of them says.
            return self._at(route, names[partition % len(names)])
        if self.named in names:
            return self._at(route, self.named)
        if len(names) > 1 and self._known.get(partition) not in names:
            raise self.no_namespace(
                f"there are several, at brokers {', '.join(names)}: say which one is meant, "
                "with broker="
            )
        return self._at(route, names[0] if len(names) == 1 else self._known[partition])

    def _absent(self, route: KvRoute, partition: int, create_at: str | None) -> HolderAddress:
        """Return the address for a partition that no registered broker has."""
        known = self._known.get(partition)
        if known is None and create_at is not None:
            broker = self.only(route) if create_at == LONE_BROKER else create_at
            return replace(self._at(route, broker), create_at=create_at)
        if (self._partitions or 1) > 1 and (route.is_deleted or not (self.is_sure or route.names)):
            self.reset()  # that was the number of one that was deleted since
            known = None
        if (self._partitions or 1) > 1 and known is None:
            raise self._no_route(
                f"no broker that is registered now has partition {partition} of {self._partitions}"
            )
        if self._partitions == 1 and self.named is not None and known in (None, self.named):
            return replace(self._at(route, self.named), create_at=self.named)
        if known is not None:  # it is not registered now, and nobody else has what it has
            return self._at(route, known)
        return replace(self._at(route, self.only(route)), create_at=LONE_BROKER)

    def _at(self, route: KvRoute, broker: str | None) -> HolderAddress:
        address = route.address_of(broker) if broker is not None else None
        if address is None:
            here = ", ".join(sorted(route.brokers)) or "none"
            raise self._no_route(f"broker {broker} is not registered now (registered: {here})")
        return HolderAddress(address, broker)

    def only(self, route: KvRoute) -> str:
        """Return the one broker that is registered."""
        names = sorted(route.brokers)
        if not names:
            raise self._no_route("no broker is registered")
        if len(names) > 1:
            raise self.no_namespace(
                "no broker that is registered now has it. If none ever had, say which one is to "
                f"have it, with broker=, one of {', '.join(names)}"
            )
        return names[0]

    def no_namespace(self, why: str) -> NoNamespace:
        """Return the error with a reason."""
        return NoNamespace(self.namespace, why)

    def _no_route(self, why: str) -> NoRoute:
        return NoRoute(kv_topic(self.namespace), why)
