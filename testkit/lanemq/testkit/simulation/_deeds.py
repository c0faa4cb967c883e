"""The deeds of an operator beside whole migrations: calls them off, leaves them, closes queues."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, final

import trio

from lanemq.sdk.admin import AdminClient, MigrationRefused, reset_offsets_by_time
from lanemq.sdk.admin.logical._indices import claimed_steps
from lanemq.sdk.admin.logical._plan import NumberStep, OpenSegment, plan_number
from lanemq.sdk.admin.logical._survey import survey
from lanemq.wire.logical import SegmentState

from ._clients import GROUPS, TOPIC
from ._processes import clock_ms

STEPS: Final = ("create", "prepare", "commit")
PAUSE_MEAN_S: Final = 0.5
RESET_BACK_S: Final = (1.0, 20.0)


@final
class Deeds:
    """An operator's deeds: each one of ``all`` is given its tools, and may be interrupted
    anywhere."""

    def __init__(self, rng: Random, queues: int, brokers: list[str], *, topic: str = TOPIC) -> None:
        self._rng = rng
        self._topic = topic
        self._queues = queues
        self._brokers = brokers
        self.source = brokers[0] if brokers else ""
        """The broker that a queue was last to go from."""
        self.counts: dict[str, int] = {}
        self.closed: set[int] = set()
        """Logical queues that may be closed: they may have no open end."""
        self._numbering = 0
        """Changes of the number that are under way, by admins that know nothing of each other."""
        self._numbered = 0
        """Number of all that were begun."""
        self.all: tuple[Callable[[AdminClient], Awaitable[None]], ...] = (
            self.call_off,
            self.leave,
            self.change_number,
            self.reset,
        )

    async def do(self, admin: AdminClient) -> None:
        """Do one of them, at random. Raises the error that interrupts it."""
        deed = self._rng.choice(self.all)
        name = deed.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        await deed(admin)

    async def call_off(self, admin: AdminClient, last: str | None = None) -> None:
        """Begin a migration, stop after any of its steps (or after ``last``), and abort it."""
        index = await self._begin(admin, last or self._rng.choice(STEPS))
        await trio.sleep(self._rng.expovariate(1 / PAUSE_MEAN_S))
        if index is not None:
            try:
                await admin.abort_migration(self._topic, index)
            except MigrationRefused:
                return  # brokers have completed it

    async def leave(self, admin: AdminClient) -> None:
        """Begin a migration, and never come back to it."""
        await self._begin(admin, self._rng.choice(STEPS))

    async def change_number(self, admin: AdminClient) -> None:
        """Change the number of logical queues, also during a migration."""
        await self.number(admin, self._rng.randint(1, self._queues))

    async def reset(self, admin: AdminClient) -> None:
        """Let a group read again messages that are some seconds old; no queue of it goes
        forward."""
        group = self._rng.choice(GROUPS)
        back_ms = round(1000 * self._rng.uniform(*RESET_BACK_S))
        time_ms = clock_ms() - back_ms
        await reset_offsets_by_time(admin, group, self._topic, time_ms, force=False)

    async def number(self, admin: AdminClient, number: int) -> None:
        """Set the number of logical queues. Raises as the tools do."""
        self._numbering += 1
        self._numbered += 1
        try:
            await self._number(admin, number, self._numbered)
        finally:
            self._numbering -= 1

    async def _number(self, admin: AdminClient, number: int, change: int) -> None:
        is_alone = self._numbering == 1
        found = await survey(admin, self._topic)
        for error in found.away.values():
            raise error
        if len(found.view.chains()) < self._queues:
            return  # a broker that has not registered yet
        try:
            steps = plan_number(found.view, number)
        except ValueError:
            return  # one of them is being migrated
        for step in await claimed_steps(admin.claim_indices, found.view, steps):
            await self._take(admin, step)
            if isinstance(step, OpenSegment) and is_alone and change == self._numbered:
                self.closed.discard(step.index)  # nobody may have closed it again meanwhile

    async def _take(self, admin: AdminClient, step: NumberStep) -> None:
        if not isinstance(step, OpenSegment):
            self.closed.add(step.segment.logical_index)
            await admin.seal(step.address, step.segment)
            return
        state, delta = SegmentState.NORMAL, step.delta
        where = step.address, self._topic
        if step.queue_id is None:
            await admin.create_queue(*where, step.index, state, delta=delta)
        else:
            await admin.reuse_queue(*where, step.queue_id, step.index, state, delta=delta)

    async def _begin(self, admin: AdminClient, last: str) -> int | None:
        """Return the logical queue of a migration that was begun; None where none could be."""
        index = self._rng.randrange(self._queues)
        found = await survey(admin, self._topic)
        chain = found.view.chains().get(index)
        source = None if chain is None else chain.normal
        if chain is None or source is None or chain.write_only is not None:
            return None
        names = sorted(set(self._brokers) - {source.broker_name})
        there = found.view.broker(self._rng.choice(names))
        here = found.view.broker(source.broker_name)
        if there is None or here is None:
            return None
        target = await admin.create_queue(
            there.address, self._topic, index, SegmentState.WRITE_ONLY
        )
        target = target.with_address(there.address)
        if last == "create":
            return index
        self.source = source.broker_name
        move = await admin.prepare_migration(here.address, source, target)
        if last == "commit" and move.source is not None and move.destination is not None:
            await admin.commit_migration(
                there.address, move.source, move.destination, move.progress
            )
        return index
