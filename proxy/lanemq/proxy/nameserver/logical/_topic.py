"""One topic with logical queues: the brokers' reports, and the view for clients.

Pure: it reads no clock; times come in as ``now_s``.
Source: RocketMQ 5.0.0-PREVIEW, RouteInfoManager.mergeLogicalQueuesInfo, and the protection of
intermediate states that its proposal wants and that version lacks.
"""

import copy
from collections.abc import Mapping
from functools import partial
from typing import final

from lanemq.wire import VIRTUAL_BROKERS_MAX, queue_ids
from lanemq.wire.bodies import QueueData
from lanemq.wire.logical import (
    Chain,
    ClientView,
    LogicalQueues,
    Segment,
    SegmentKey,
    TopicReport,
)

from ._chains import doubtful_segments, judge, queues_of, segments_of
from ._history import History, reported_gaps
from ._view import PLAIN, Facts, Reported, ShownTopic, Status


@final
class LogicalTopic:
    """The knowledge of one topic. It keeps the segments of brokers that have gone."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._reported: dict[str, Reported] = {}
        self._wait_until_s: float | None = None
        self._forget_history()

    def _forget_history(self) -> None:
        self._shown: dict[int, Chain] | None = None
        self._index_of_queue: dict[tuple[str, int], int] = {}
        self._arrived: set[str] = set()
        self._left_out: set[tuple[str, int]] = set()
        self._unmapped: set[str] = set()
        self._takes_gaps_as_found = False
        self._history = History()
        self._brokers = 0

    def copy(self) -> "LogicalTopic":
        """Return a copy, which can be changed while this one is looked at."""
        copied = copy.copy(self)
        copied._reported = dict(self._reported)
        copied._index_of_queue = dict(self._index_of_queue)
        copied._arrived = set(self._arrived)
        copied._left_out = set(self._left_out)
        copied._unmapped = set(self._unmapped)
        copied._history = self._history.copy()
        return copied

    # Reports of brokers

    def report(
        self,
        broker_name: str,
        cluster: str,
        queues: LogicalQueues,
        report: TopicReport | None,
        *,
        wait_until_s: float | None = None,
    ) -> None:
        """Take a broker's report of all its segments of the topic; others' in ``queues`` are
        ignored.

        ``wait_until_s`` comes with the first registration of a broker ever: there may be
        others with the topic that have not registered yet, so if the topic was not known,
        nobody is shown anything until then.
        """
        own = LogicalQueues(
            Chain(
                chain.index,
                (s for s in chain if s.broker_name == broker_name and s.topic == self.topic),
            )
            for chain in queues.values()
        )
        if wait_until_s is not None and own:
            if not self.broker_names:
                self._wait_until_s = wait_until_s
            self._arrived.add(broker_name)
        self._forget_segments(broker_name, keep={segment.key for segment in own.segments})
        self._reported[broker_name] = Reported(cluster, own, report, segments_of(own))
        for segment in own.segments:
            self._index_of_queue[broker_name, segment.queue_id] = segment.logical_index

    def withdraw(self, broker_name: str) -> None:
        """Note that a broker has the topic without logical queues, or not at all any more."""
        if broker_name in self._reported:
            self._forget_segments(broker_name, keep=set())
            del self._reported[broker_name]

    def forget(self, broker_name: str) -> None:
        """Forget a broker that an operator has given up; segments missing then are gone."""
        self.withdraw(broker_name)
        self._unmapped.discard(broker_name)
        self._takes_gaps_as_found = True

    def withdraw_cluster(self, cluster: str | None) -> None:
        """Delete the topic in one cluster or (None) everywhere."""
        for name, reported in list(self._reported.items()):
            if cluster is None or reported.cluster == cluster:
                self.withdraw(name)

    @property
    def has_segments(self) -> bool:
        return any(reported.queues.segments for reported in self._reported.values())

    def is_waiting(self, now_s: float) -> bool:
        """Return whether brokers may be missing that have not registered yet."""
        return self._wait_until_s is not None and now_s < self._wait_until_s

    @property
    def segments(self) -> int:
        """The number of segments that brokers report."""
        return sum(reported.segments for reported in self._reported.values())

    @property
    def broker_names(self) -> set[str]:
        """The brokers that have, or share, logical queues of it, registered or not."""
        return {name for name, found in self._reported.items() if found.queues}

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to remember."""
        return not self._reported

    @property
    def client_view(self) -> ClientView:
        """The view for old clients: physical queues if any broker says so."""
        views = {found.report.client_view for found in self._reported.values() if found.report}
        return ClientView.PHYSICAL if ClientView.PHYSICAL in views else ClientView.LOGICAL

    @property
    def is_of_lanemq(self) -> bool:
        """True if a broker of lanemq has it."""
        return any(reported.report is not None for reported in self._reported.values())

    @property
    def serves_java(self) -> bool:
        """True if no broker withholds the logical queues from Java clients."""
        return all(found.report.serve_to_java for found in self._reported.values() if found.report)

    @property
    def brokers(self) -> int:
        """The number of brokers at which older clients see it; 0 while no broker says any.

        It stays what it is while any broker says it; else it is the least that one says, so that
        all name servers have the same.
        """
        reports = [found.report for found in self._reported.values() if found.report is not None]
        said = {report.brokers for report in reports if 0 < report.brokers <= VIRTUAL_BROKERS_MAX}
        if said and self._brokers not in said:
            self._brokers = min(said)
        return self._brokers

    # The view for clients

    def view(self, facts: Facts, now_s: float) -> ShownTopic:
        """Return the view for clients now. Sets of indices change only to complete ones."""
        is_waiting = self.is_waiting(now_s)
        if not self.broker_names or not (is_waiting or self.has_segments):
            self._wait_until_s = None
            self._forget_history()
            return PLAIN
        if not is_waiting and self._wait_until_s is not None:
            # A broker that could report the missing segments has had the time to.
            self._wait_until_s, self._takes_gaps_as_found = None, True
            self._arrived |= self._reported.keys()
        live = LogicalQueues.of(s for r in self._reported.values() for s in r.queues.segments)
        if self._takes_gaps_as_found:
            self._takes_gaps_as_found = False
            self._history.take_as_found(live.values())
        self._leave_out_unmapped(facts)
        chains, problems = self._judged(live, facts)
        missing = self._missing(facts, live)
        if self._shown is None:
            missing += self._missing_with_brokers(facts)
        missing += [f"nothing of logical queue {i} can be shown" for i in live if i not in chains]
        found = (*problems, *missing)
        if is_waiting:
            return ShownTopic(Status.NOT_YET, problems=found)
        if not missing:
            self._shown = chains
        elif self._shown is None:
            return ShownTopic(Status.PLAIN, problems=found)
        else:
            used = queues_of(live)
            self._shown = {i: chains.get(i) or self._left_of(i, used) for i in self._shown}
        return ShownTopic(Status.LOGICAL, self._addressed(facts), found)

    def _judged(
        self, live: Mapping[int, Chain], facts: Facts
    ) -> tuple[dict[int, Chain], list[str]]:
        doubtful = doubtful_segments(s for chain in live.values() for s in chain)
        chains, problems = {}, []
        gaps = reported_gaps(found.report for found in self._reported.values())
        used = queues_of(live)
        for index, chain in live.items():
            before = (self._shown or {}).get(index, Chain(index))
            judged = judge(
                chain,
                has_master=lambda name: facts.master_address(name) is not None,
                follows=partial(self._history.follows, before),
                is_known_gap=partial(self._is_known_gap, gaps[index], before),
                is_doubtful=doubtful.__contains__,
            )
            if judged.problem is not None:
                problems.append(f"logical queue {index}: {judged.problem}")
            if best := judged.chain or self._left_of(index, used):
                chains[index] = best
        return chains, problems

    def _is_known_gap(
        self, gaps: list[tuple[int, int]], shown: Chain, before: Segment | None, after: Segment
    ) -> bool:
        # A broker of 5.0.0-PREVIEW cannot say that an operator forced its first offset.
        is_mute = self._reported[after.broker_name].report is None
        if is_mute and self._history.follows(shown, before, after):
            return True
        return self._history.is_known_gap(shown.index, before, after, gaps)

    def _left_of(self, index: int, used: set[tuple[str, int]]) -> Chain:
        """Return the segments of a logical queue that clients know, as far as nothing contradicts
        them."""
        shown = (self._shown or {}).get(index, ())
        return Chain(index, (s for s in shown if (s.broker_name, s.queue_id) not in used))

    def _missing(self, facts: Facts, live: Mapping[int, Chain]) -> list[str]:
        """Return the queues of registered brokers that should be in a logical queue and are not."""
        unmapped = {n: self._unmapped_at(n, data, live) for n, data in facts.queue_datas.items()}
        self._unmapped -= unmapped.keys()
        self._unmapped |= {name for name, found in unmapped.items() if found}
        missing = [problem for found in unmapped.values() for problem in found]
        # A broker of lanemq lists a logical queue without segments if others have some.
        listed = {i for found in self._reported.values() if found.report for i in found.queues}
        missing += [
            f"nobody has reported segments of logical queue {index}"
            for index in self._shown or ()
            if index not in live and index in listed
        ]
        return missing

    def _unmapped_at(self, name: str, data: QueueData, live: Mapping[int, Chain]) -> list[str]:
        count = data.queue_count
        if count == 0:
            return []
        reported = self._reported.get(name)
        if reported is None:
            return [f"broker {name} has not reported logical queues"]
        mapped = {segment.queue_id for segment in reported.queues.segments}
        return [
            f"queue {queue_id} of broker {name} is in no logical queue"
            for queue_id in queue_ids(count)
            if queue_id not in mapped
            and (name, queue_id) not in self._left_out
            # A queue that was in a logical queue which still exists has been removed.
            and self._index_of_queue.get((name, queue_id)) not in live
        ]

    def _missing_with_brokers(self, facts: Facts) -> list[str]:
        """Return brokers that went before their queues were mapped, and have not come back without
        the topic.

        A client that is shown logical queues then would not see theirs, even when they are back.
        """
        here = facts.queue_datas.keys()
        away = {n for n in self._unmapped - here if facts.master_address(n) is None}
        self._unmapped &= away | here
        return [f"broker {n} is away, and had queues in no logical queue" for n in sorted(away)]

    def _addressed(self, facts: Facts) -> LogicalQueues:
        """Return the view with the brokers' present addresses."""

        def addressed(segment: Segment) -> Segment:
            address = facts.master_address(segment.broker_name)
            if address is None or address == segment.broker_address:
                return segment
            return segment.with_address(address)

        shown = self._shown or {}
        return LogicalQueues(Chain(index, map(addressed, chain)) for index, chain in shown.items())

    def _forget_segments(self, broker_name: str, keep: set[SegmentKey]) -> None:
        """Drop a broker's segments, in whatever logical queue, but for those to come."""
        reported = self._reported.get(broker_name)
        for segment in () if reported is None else reported.queues.segments:
            if segment.key not in keep:
                self._history.removed(segment)

    def _leave_out_unmapped(self, facts: Facts) -> None:
        """Leave out queues for which a broker came without segments: swept before, or left out for
        good."""
        for name in self._arrived & facts.queue_datas.keys():
            reported = self._reported.get(name)
            if reported is not None and reported.queues:
                unmapped = set(queue_ids(facts.queue_datas[name].queue_count))
                unmapped -= {segment.queue_id for segment in reported.queues.segments}
                self._left_out |= {(name, queue_id) for queue_id in unmapped}
        self._arrived.clear()
