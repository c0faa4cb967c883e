"""Has another broker stand in for one that is drained: the locks of its queues go over.

Each step is an entry of the log of orders, changed by compare-and-set: any proxy can go on where
another one has stopped.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, final

import trio
from msgspec.structs import replace

from ..kv import LOGS
from ._context import MoveContext, MoveRefused
from ._heard import has_heard
from ._held_locks import LENT_S, HeldLocks
from ._lease import leases_in
from ._move_brokers import proxied_at
from ._moved_topics import all_orders
from ._stands import Stand, change_stand, version_of_stand

LOOK_S: Final = 0.2
LATE_S: Final = 3.0
"""Seconds after which no client takes the answer to a request for locks: they give it one."""
LOCKS_LOOK_S: Final = 1.0
STOOD_S: Final = 90.0
"""Seconds that all proxies have to take locks at both brokers; leases last 60 s."""


@final
class Handover:
    """The hand-over of all that is seen at one broker, and of all that it stands in for."""

    def __init__(self, context: MoveContext, broker: str, say: Callable[[str], None]) -> None:
        """``say`` takes the step at which it is."""
        self._context = context
        self._moving = context.moving
        self._orders = context.moving.orders
        self._admin = context.admin
        self._address = context.address
        self._known = context.known
        self._listed = context.listed
        self._check = context.check
        self._broker = broker
        self._say = say

    async def run(self) -> None:
        """Go on to the end. Raises ``MoveRefused``, ``LanemqError``, ``RemoteProtocolError``,
        ``KeysUnavailable``, ``TooLong``."""
        if self._moving.stands.of(self._broker) is None or self._address(self._broker) is not None:
            await self._check_logs()
        while await self._is_changed():
            pass

    async def _check_logs(self) -> None:
        """Refuse the broker of a log of proxies."""
        self._say("looks for logs of proxies")
        noted = await self._admin.values(LOGS)
        logs = sorted(topic for topic, at in noted.items() if at == self._broker)
        stands = self._moving.stands.known.values()
        is_needed = any(self._broker in one.places for one in stands)
        if self._address(self._broker) is not None or not is_needed:
            # One that died while it stood in for others is not asked.
            address = self._known(self._broker)
            there = (await self._admin.topic_configs(address)).topic_config_table
            logs = [topic for topic in logs if topic in there]
        if logs:
            raise MoveRefused(
                f"broker {self._broker} has {logs[0]}, a log of proxies, which cannot move: keep "
                "this broker, and drain others"
            )

    async def _is_changed(self) -> bool:
        """Have one entry take its next step; returns False where there is none."""
        self._check()
        stands = self._moving.stands
        entries = {self._broker: Stand(self._broker), **stands.known}
        # Its own first: others choose it no more once it has one.
        for name, stand in sorted(entries.items(), key=lambda one: (one[0] != self._broker, one)):
            if stands.is_unreadable(name):
                raise MoveRefused(f"this proxy cannot read who stands in for {name}")
            if stand.at != self._broker and stand.target != self._broker:
                continue
            self._say(f"has another broker stand in for {name}")
            keys = self._orders.keys
            version = version_of_stand(keys, name)
            if stand.at != self._broker:
                # Who hands over to it chooses another one. The first one has all locks of both.
                await change_stand(keys, name, replace(stand, target=""), version)
                return True
            if not self._may_take(name, stand.target, entries):
                await self._check_direct(stand.at)
                target = await self._chosen(name, entries)
                await change_stand(keys, name, replace(stand, target=target), version)
                return True
            await self._until_stood(name, stand)
            await self._handed_over(name, stand)
            await self._check_direct(stand.at)
            self._check()
            if self._may_take(name, stand.target, {**entries, **stands.known}):
                is_ended = stand.target == name
                now = replace(stand, at=stand.target, target="", is_ended=is_ended)
                await change_stand(keys, name, now, version)
            return True
        return False

    def _may_take(self, name: str, target: str, entries: Mapping[str, Stand]) -> bool:
        """Return whether a broker is there, and does its own part for good."""
        if not target or self._address(target) is None:
            return False
        return target == name or target not in _drained(entries)

    async def _chosen(self, name: str, entries: Mapping[str, Stand]) -> str:
        """Return the broker that is to stand in: one that is not drained and stands in for the
        fewest. Itself is the last resort, and only with queues that have come back to it: it would
        be needed again, and it may be about to be switched off."""
        load = Counter(place for stand in entries.values() for place in stand.places)
        never = _drained(entries) | {self._broker, name}
        found = [one for one in self._listed() if one not in never]
        if found:
            return min(found, key=lambda one: (load[one], one))
        if name != self._broker and self._address(name) is not None and await self._is_used(name):
            return name
        if len(set(self._listed()) | {self._broker}) == 1:
            raise MoveRefused(f"{self._broker} is the only broker: its queues cannot go")
        raise MoveRefused(f"no broker can stand in for {name}: all others are drained, too")

    async def _is_used(self, broker: str) -> bool:
        """Return whether a queue is written at a broker."""
        return any(broker in order.ends() for _, order in await all_orders(self._orders))

    async def _check_direct(self, broker: str) -> None:
        """Refuse groups with members who go direct: these take locks at this broker alone, and
        members behind proxies would soon take them at another one."""
        while (address := self._address(broker)) is not None:
            self._say(f"looks for members of groups who go direct to {broker}")
            await self._check_direct_at(broker, address)
            if await has_heard(self._context, broker, self._say):
                return

    async def _check_direct_at(self, broker: str, address: str) -> None:
        locks = HeldLocks(self._context, broker)
        proxied = await proxied_at(self._admin, address)
        for group in sorted(await locks.queues(address)):
            found = await self._admin.consumer_connections(address, group)
            direct = set() if found is None else {one.client_id for one in found.connection_set}
            direct -= proxied
            if direct:
                direct -= await proxied_at(self._admin, address)  # who has come meanwhile
            if direct:
                raise MoveRefused(
                    f"group {group} has members who go direct ({min(direct)}): they and those who "
                    f"come through proxies would get the same locks of queues of {broker}"
                )

    async def _until_stood(self, name: str, stand: Stand) -> None:
        """Wait until all proxies take locks at both."""
        position = self._orders.position
        behind: list[str] = []
        with trio.move_on_after(STOOD_S):
            while True:
                self._check()
                if self._moving.stands.of(name) != stand:
                    return
                leases = leases_in(self._orders)
                behind = sorted({one.name for one in leases if one.stood < position})
                if leases and not behind:
                    return
                self._say(f"waits until all proxies take locks of {name} at {stand.target}, too")
                await trio.sleep(LOOK_S)
        raise MoveRefused(
            f"waits until all proxies take locks of {name} at {stand.target}, too: not yet at "
            f"{', '.join(behind) or 'any'}"
        )

    async def _handed_over(self, name: str, stand: Stand) -> None:
        """Wait until nobody has a lock at the first of two brokers alone."""
        self._say(f"waits until locks of {name} are at {stand.target}, too")
        await trio.sleep(LATE_S)  # for answers to those who asked the first one alone
        locks = HeldLocks(self._context, name)
        # Once, since there may be thousands of topics: groups that come later take both locks.
        first = self._address(stand.at)
        asked = None if first is None else await locks.queues(first)
        with trio.move_on_after(LENT_S):
            while self._moving.stands.of(name) == stand:
                at, to = self._address(stand.at), self._address(stand.target)
                if at is not None and to is not None:
                    asked = asked or await locks.queues(at)
                    if not await locks.held_alone(at, to, asked):
                        return
                await trio.sleep(LOCKS_LOOK_S)
            return
        self._known(stand.target)
        # Those that were not taken at both since then have ended, where nobody could renew them.
        if self._address(stand.at) is not None:
            raise MoveRefused(
                f"somebody has a lock of a queue of {name} at {stand.at} and not at "
                f"{stand.target}, and renews it: does a member of a group go direct?"
            )


def _drained(entries: Mapping[str, Stand]) -> set[str]:
    """Return the brokers that others stand in for, or are to."""
    return {name for name, stand in entries.items() if stand.at != name or stand.target}
