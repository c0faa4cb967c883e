"""The queues of a topic that are in no logical queue, for which a view of all indices has to wait.

What is kept of a broker goes when it takes its report back, so that names that come and go leave
nothing. A broker lists a logical queue of which it has had segments while there are others, so what
it says, which has a room, is the measure of what is kept besides.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, final

from lanemq.wire import TOPIC_QUEUES_MAX, queue_ids
from lanemq.wire.bodies import QueueData
from lanemq.wire.logical import Segment

from ._view import Facts, Reported

AWAY_MAX: Final = 64
"""Brokers that are waited for because they went with queues in no logical queue: one is enough for
that, but an operator should hear of each."""
INDICES_MORE_MAX: Final = 16
"""Logical queues of which a broker's former queues are kept, beyond as many as it lists."""
NAMED_MAX: Final = 4
"""Queues of one broker of which a problem says the id."""

_IDS: Final = queue_ids(TOPIC_QUEUES_MAX)


@final
class UnmappedQueues:
    """The queues of one topic. Those of a broker are bits of a number, by their ids: no client
    looks at others than ``queue_ids`` has."""

    def __init__(self) -> None:
        self._arrived: set[str] = set()
        self._left_out: dict[str, int] = {}
        self._former: dict[str, dict[int, int]] = {}
        self._waited_for: dict[str, None] = {}

    def copy(self) -> "UnmappedQueues":
        """Return a copy."""
        copied = UnmappedQueues()
        copied._arrived, copied._waited_for = set(self._arrived), dict(self._waited_for)
        copied._left_out, copied._former = dict(self._left_out), dict(self._former)
        return copied

    @property
    def count(self) -> int:
        """The number of things that are kept."""
        former = sum(map(len, self._former.values()))
        return len(self._arrived) + len(self._left_out) + former + len(self._waited_for)

    def arrived(self, broker_names: Iterable[str]) -> None:
        """Note brokers that came with logical queues for the first time, or had the time to."""
        self._arrived.update(broker_names)

    def note_removed(self, broker_name: str, segments: Iterable[Segment], listed: int) -> None:
        """Note segments that a broker, which lists so many logical queues now, has lost."""
        last = {s.queue_id: s.logical_index for s in segments if s.queue_id in _IDS}
        if not last:
            return
        more: dict[int, int] = {}
        for queue_id, index in last.items():
            more[index] = more.get(index, 0) | 1 << queue_id
        moved = _all(more.values())
        former = {i: ids & ~moved for i, ids in self._former.get(broker_name, {}).items()}
        for index, ids in more.items():
            former[index] = former.pop(index, 0) | ids  # the newest are the last
        kept = [(index, ids) for index, ids in former.items() if ids]
        self._former[broker_name] = dict(kept[-(listed + INDICES_MORE_MAX) :])

    def withdraw(self, broker_name: str) -> None:
        """Forget what is kept of a broker that has no logical queues of the topic any longer."""
        self._left_out.pop(broker_name, None)
        self._former.pop(broker_name, None)

    def stop_waiting_for(self, broker_name: str) -> None:
        """Note that a broker will not come back."""
        self._waited_for.pop(broker_name, None)

    def leave_out(self, facts: Facts, reported: Mapping[str, Reported]) -> None:
        """Leave out queues for which a broker came without segments: swept before, or left out for
        good."""
        for name in self._arrived & facts.queue_datas.keys():
            found = reported.get(name)
            if found is not None and found.queues:
                ids = _all_ids(facts.queue_datas[name]) & ~_mapped_ids(found)
                if ids:
                    self._left_out[name] = self._left_out.get(name, 0) | ids
        self._arrived.clear()

    def keep_former_of(self, live: Collection[int], shown: Collection[int]) -> None:
        """Forget former queues of logical queues that have no segments, and are not shown."""
        for name, former in list(self._former.items()):
            if not all(index in live or index in shown for index in former):
                kept = {i: ids for i, ids in former.items() if i in live or i in shown}
                self._former[name] = kept
                if not kept:
                    del self._former[name]

    def missing(
        self,
        facts: Facts,
        live: Collection[int],
        reported: Mapping[str, Reported],
        *,
        is_shown: bool,
    ) -> list[str]:
        """Return what should be in a logical queue and is not: at registered brokers, and unless
        logical queues are shown already at those that went before their queues were mapped, and
        have not come back without the topic.

        A client that is shown logical queues then would not see theirs, even when they are back.
        """
        here = facts.queue_datas
        found = {
            name: self._missing_at(name, here[name], live, reported.get(name)) for name in here
        }
        problems = [problem for some in found.values() for problem in some]
        if is_shown:
            self._waited_for = {}
            return problems
        before = {n: None for n in self._waited_for if n not in here}
        away = [name for name in before if facts.master_address(name) is None][:AWAY_MAX]
        self._waited_for = dict.fromkeys([*away, *(name for name in here if found[name])])
        return problems + [
            f"broker {name} is away, and had queues in no logical queue" for name in sorted(away)
        ]

    def _missing_at(
        self, name: str, data: QueueData, live: Collection[int], reported: Reported | None
    ) -> list[str]:
        """Return the problems with a broker's queues. Those with the greatest ids are named: where
        they are mapped one by one, these are mostly the last, and no step is news."""
        ids = _all_ids(data)
        if not ids:
            return []
        if reported is None:
            return [f"broker {name} has not reported logical queues"]
        ids &= ~(_mapped_ids(reported) | self._left_out.get(name, 0))
        # A queue that was in a logical queue which still exists has been removed.
        former = self._former.get(name, {})
        ids &= ~_all(queues for index, queues in former.items() if index in live)
        problems: list[str] = []
        while ids and len(problems) < NAMED_MAX:
            queue_id = ids.bit_length() - 1
            problems.append(f"queue {queue_id} of broker {name} is in no logical queue")
            ids ^= 1 << queue_id
        if ids:
            problems.append(f"more queues of broker {name} are in no logical queue")
        return problems


def _all_ids(data: QueueData) -> int:
    return (1 << len(queue_ids(data.queue_count))) - 1


def _mapped_ids(reported: Reported) -> int:
    return _all(1 << s.queue_id for s in reported.queues.segments if s.queue_id in _IDS)


def _all(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found
