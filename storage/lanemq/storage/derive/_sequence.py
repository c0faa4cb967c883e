"""Check of queue offsets by their neighbours, so that a damaged one costs its own message only.

No checksum covers the head of a record. A queue's offsets follow each other in the log, though:
where one does not, the next messages of the queue tell whether the queue went on elsewhere (its
topic was deleted and made again, a broker ran without its last files, messages between are gone)
or whether that one offset is damaged. Until then it is held back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, Self, final

from lanemq.local import get_logger
from lanemq.wire import LMQ_PREFIX

from ..log._damage import CONTRADICTED, Damage, KnownDamage
from ..log._records import Record, fits
from ._units import DerivedUnit

LOGGER = get_logger(__name__)
HELD_MAX: Final = 8
"""Most messages of a queue that wait for a judgement."""
RUN_MIN: Final = 3
"""Fewest messages that prove a way back although none of them follows another one."""

Expected = Callable[[DerivedUnit], tuple[int, int] | None]
"""Maps the first unit seen of a queue to what an index of the queue has before it in the log: the
offset behind that message, and its log position; None where nothing is known."""
IsKnown = Callable[[DerivedUnit], bool]
"""Returns True if an index has this very message in this slot."""
OnDamaged = Callable[[DerivedUnit, int | None], None]
"""Takes a unit whose offset is damaged, and the slot to be left for it, where one is missing."""


def _nothing(_unit: DerivedUnit) -> None:
    return None


def _never(_unit: DerivedUnit) -> bool:
    return False


def add_damaged_offset(damage: KnownDamage, unit: DerivedUnit) -> None:
    """Add a message whose offset is damaged to what readers pass over."""
    position, size_bytes = unit.log_position, unit.size_bytes
    if unit.topic.startswith(LMQ_PREFIX):
        LOGGER.warning("%s. It gets no place there", DamagedOffset.of(unit))
        return  # its own queue has it all the same
    if damage.covers(position):
        return  # another index of the log came upon it, too
    place = unit.topic, unit.queue_id, unit.queue_offset
    record = Record(position, size_bytes, *place, 0, unit.store_ms, b"")
    damage.add(Damage(position, position + size_bytes, CONTRADICTED, record))


class DamagedOffset(NamedTuple):
    """A message that cannot be where its record says."""

    topic: str
    queue_id: int
    queue_offset: int
    log_position: int

    @classmethod
    def of(cls, unit: DerivedUnit) -> Self:
        """Make the value from the message's unit."""
        return cls(unit.topic, unit.queue_id, unit.queue_offset, unit.log_position)

    def __str__(self) -> str:
        return (
            f"the message at {self.log_position} of the log, offset {self.queue_offset} of queue"
            f" {self.queue_id} of {self.topic}, is damaged: {CONTRADICTED}"
        )


@final
class _Queue:
    __slots__ = ("at", "held", "next")

    def __init__(self) -> None:
        self.next = -1
        """The offset that should follow; -1 while that is not known."""
        self.at = 0
        """Log position of the message before it."""
        self.held: list[DerivedUnit] = []


@final
class Sequences:
    """The judge of the units of any number of queues; takes them in the order of the log."""

    def __init__(
        self,
        on_damaged: OnDamaged,
        *,
        expected: Expected = _nothing,
        is_known: IsKnown = _never,
    ) -> None:
        self._on_damaged = on_damaged
        self._expected = expected
        self._is_known = is_known
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._waiting: dict[tuple[str, int], _Queue] = {}

    @property
    def is_undecided(self) -> bool:
        """True while any unit is held back."""
        return bool(self._waiting)

    @property
    def held_from(self) -> int | None:
        """Log position of the oldest unit that is held back; None without any."""
        held = [queue.held[0].log_position for queue in self._waiting.values()]
        return min(held, default=None)

    def confirmed(self, units: Iterable[DerivedUnit]) -> Iterator[DerivedUnit]:
        """Iterate over the units that are right, those still held back behind the last included.

        A unit is asked for once those that it confirmed were given: whoever keeps them is asked
        what an index knows with all of them in it, and knows at each record what is decided.
        """
        for unit in units:
            yield from self.take(unit)
        yield from self.finish()

    def take(self, unit: DerivedUnit) -> Sequence[DerivedUnit]:
        """Return the units that are known to be right now, in the order of the log."""
        name = unit[:2]
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue()
        if unit.queue_offset == queue.next and not queue.held:
            queue.next += 1
            queue.at = unit.log_position
            return (unit,)
        taken = self._judge(queue, unit)
        if queue.held:
            self._waiting[name] = queue
        else:
            self._waiting.pop(name, None)
        return taken

    def holds(self, topic: str, queue_id: int) -> bool:
        """Return whether units of a queue are held back."""
        return (topic, queue_id) in self._waiting

    def drop(self, topic: str, queue_id: int) -> None:
        """Expect nothing of a queue's next unit."""
        self._queues.pop((topic, queue_id), None)

    def finish(self) -> list[DerivedUnit]:
        """Return the units still held back that are right, as far as can be told."""
        taken = [unit for queue in self._waiting.values() for unit in self._decide(queue)]
        self._waiting.clear()
        return taken

    def forget(self) -> list[DerivedUnit]:
        """Finish, and expect nothing of what comes next."""
        taken = self.finish()
        self._queues.clear()
        return taken

    def _judge(self, queue: _Queue, unit: DerivedUnit) -> list[DerivedUnit]:
        offset, held = unit.queue_offset, queue.held
        if self._is_known(unit):
            return self._accept(queue, unit)
        if queue.next < 0 and not held:
            known = self._expected(unit)
            if known is not None:
                queue.next, queue.at = known
                if queue.next == offset:
                    return self._accept_only(queue, unit)
        if held and queue.next >= 0 and offset - queue.next == len(held):
            return self._accept(queue, unit)
        for number, one in enumerate(held):
            if offset - one.queue_offset == len(held) - number:
                return self._take_both(queue, number, unit)
        if held and queue.next >= 0 and 0 <= offset - queue.next < len(held):
            return self._accept(queue, unit)
        held.append(unit)
        return self._decide(queue) if len(held) > HELD_MAX else []

    def _take_both(self, queue: _Queue, number: int, unit: DerivedUnit) -> list[DerivedUnit]:
        """Take a unit and one of those before it, which agree with each other: as many messages
        lie between as should."""
        before, between = queue.held[number], queue.held[number + 1 :]
        if not _may_follow(queue, before):
            self._drop(queue.held)
            self._drop([unit])
            queue.held = []
            return []
        queue.held = queue.held[:number]
        taken = self._accept(queue, before)
        for slot, one in enumerate(between, before.queue_offset + 1):
            self._on_damaged(one, slot)
        return [*taken, *self._accept_only(queue, unit)]

    def _accept(self, queue: _Queue, unit: DerivedUnit) -> list[DerivedUnit]:
        """Take a unit for right, and decide about those held back: those that lead to it are right.

        Where the queue goes back all others no longer count; else they are damaged.
        """
        taken: list[DerivedUnit] = []
        held, queue.held = queue.held, []
        goes_back = unit.queue_offset < queue.next
        low = 0 if goes_back else queue.next
        are_missing = queue.next >= 0 and unit.queue_offset - queue.next == len(held)
        for slot, one in enumerate(held, queue.next):
            between = unit.queue_offset - one.queue_offset
            if (
                one.queue_offset >= low
                and between > 0
                and fits(between, unit.log_position - one.log_position)
            ):
                taken += self._accept_only(queue, one)
            elif not goes_back:
                self._on_damaged(one, slot if are_missing else None)
        return [*taken, *self._accept_only(queue, unit)]

    def _accept_only(self, queue: _Queue, unit: DerivedUnit) -> list[DerivedUnit]:
        queue.next, queue.at = unit.queue_offset + 1, unit.log_position
        return [unit]

    def _drop(self, units: Sequence[DerivedUnit]) -> None:
        for unit in units:
            self._on_damaged(unit, None)

    def _decide(self, queue: _Queue) -> list[DerivedUnit]:
        """Decide about held-back units by themselves: nothing more is known.

        What goes on does so as far as the log has room. What goes back, and would hide all
        messages between, does so for a queue that begins again, at 0; for several messages that
        lead one way; or where more than a bit differs. Else it is damaged, and keeps a slot: if it
        was the queue's newest message its offset must not be given again.
        """
        held, queue.held = queue.held, []
        taken: list[DerivedUnit] = []
        goes_one_way = len(held) >= RUN_MIN and all(
            one.queue_offset < other.queue_offset for one, other in pairwise(held)
        )
        for number, unit in enumerate(held):
            offset = unit.queue_offset
            is_back = 0 <= offset < queue.next
            later = held[number + 1 :]
            is_passed = any(max(queue.next, 1) <= other.queue_offset <= offset for other in later)
            differs = (offset ^ queue.next).bit_count()
            if (is_back and (offset == 0 or goes_one_way or differs > 1)) or (
                not is_back and not is_passed and _may_follow(queue, unit)
            ):
                taken += self._accept_only(queue, unit)
            elif queue.next < 0:
                self._on_damaged(unit, None)
            else:
                self._on_damaged(unit, queue.next)
                queue.next, queue.at = queue.next + 1, unit.log_position
        return taken


def _may_follow(queue: _Queue, unit: DerivedUnit) -> bool:
    """Return whether the messages between lie in the log, as far as there is room."""
    return queue.next < 0 or fits(unit.queue_offset - queue.next, unit.log_position - queue.at)


class UnitTarget(Protocol):
    """An index that takes units, and knows the slots of some; see ``Sequences``."""

    def put(self, unit: DerivedUnit) -> None:
        """Take a unit that is right."""

    def pass_over(self, unit: DerivedUnit, slot: int | None) -> None:
        """Take note of a unit whose offset is damaged."""

    def expected(self, unit: DerivedUnit) -> tuple[int, int] | None: ...

    def is_known(self, unit: DerivedUnit) -> bool: ...


def sequences_of(targets: Sequence[UnitTarget], on_damaged: OnDamaged) -> Sequences:
    """Return the ``Sequences`` of several indexes, which learn of the units that are damaged."""

    def pass_over(unit: DerivedUnit, slot: int | None) -> None:
        on_damaged(unit, slot)
        for target in targets:
            target.pass_over(unit, slot)

    def expected(unit: DerivedUnit) -> tuple[int, int] | None:
        known = (target.expected(unit) for target in targets)
        return next((one for one in known if one is not None), None)

    def is_known(unit: DerivedUnit) -> bool:
        return any(target.is_known(unit) for target in targets)

    return Sequences(pass_over, expected=expected, is_known=is_known)
