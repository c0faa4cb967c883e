"""One topic with logical queues: the brokers' reports, and the view for clients.

Pure: it reads no clock; times come in as ``now_s``.
Source: RocketMQ 5.0.0-PREVIEW, RouteInfoManager.mergeLogicalQueuesInfo, and the protection of
intermediate states that its proposal wants and that version lacks.
"""

import copy
from collections.abc import Mapping
from functools import partial
from typing import final

from lanemq.wire import VIRTUAL_BROKERS_MAX
from lanemq.wire.logical import (
    Chain,
    ClientView,
    LogicalQueues,
    Segment,
    SegmentKey,
    TopicReport,
)

from ._chains import doubtful_segments, judge, own_queues, queues_of, segments_of
from ._history import History, Past, reported_gaps
from ._room import Held
from ._unmapped import UnmappedQueues
from ._view import PLAIN, Facts, Reported, ShownTopic, Status


@final
class LogicalTopic:
    """The knowledge of one topic. It keeps the segments of brokers that have gone."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._reported: dict[str, Reported] = {}
        self.held: dict[str, Held] = {}
        """The memory of each broker's segments, also taken back ones until a view is complete."""
        self._wait_until_s: float | None = None
        self._forget_history()

    def _forget_history(self) -> None:
        self._shown: dict[int, Chain] | None = None
        self._unmapped = UnmappedQueues()
        self._takes_gaps_as_found = False
        self._history = History()
        self._brokers = 0

    def copy(self) -> "LogicalTopic":
        """Return a copy, which can be changed while this one is looked at."""
        copied = copy.copy(self)
        copied._reported = dict(self._reported)
        copied.held = dict(self.held)
        copied._unmapped = self._unmapped.copy()
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
        held: Held,
        wait_until_s: float | None = None,
    ) -> None:
        """Take a broker's report of all its segments of the topic; others' in ``queues`` are
        ignored.

        ``wait_until_s`` comes with the first registration of a broker ever: there may be
        others with the topic that have not registered yet, so if the topic was not known,
        nobody is shown anything until then.
        """
        own = own_queues(queues, broker_name, self.topic)
        if wait_until_s is not None and own:
            if not self.broker_names:
                self._wait_until_s = wait_until_s
            self._unmapped.arrived([broker_name])
        lost = self._forget_segments(broker_name, keep={segment.key for segment in own.segments})
        self._unmapped.note_removed(broker_name, lost, len(own))
        self._reported[broker_name] = Reported(cluster, own, report, segments_of(own), held)
        before_bytes = self.held[broker_name].size_bytes if broker_name in self.held else 0
        self.held[broker_name] = held._replace(size_bytes=max(held.size_bytes, before_bytes))

    def withdraw(self, broker_name: str) -> None:
        """Note that a broker has the topic without logical queues, or no longer."""
        if broker_name in self._reported:
            self._forget_segments(broker_name, keep=set())
            self._unmapped.withdraw(broker_name)
            del self._reported[broker_name]

    def __contains__(self, broker_name: str) -> bool:
        return broker_name in self._reported

    def forget(self, broker_name: str) -> None:
        """Forget a broker that an operator has given up; segments missing then are gone."""
        self.withdraw(broker_name)
        self._unmapped.stop_waiting_for(broker_name)
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
            self._hold_reported()
            return PLAIN
        if not is_waiting and self._wait_until_s is not None:
            # A broker that could report the missing segments has had the time to.
            self._wait_until_s, self._takes_gaps_as_found = None, True
            self._unmapped.arrived(self._reported)
        live = LogicalQueues.of(s for r in self._reported.values() for s in r.queues.segments)
        if self._takes_gaps_as_found:
            self._takes_gaps_as_found = False
            self._history.take_as_found(live.values())
        self._unmapped.leave_out(facts, self._reported)
        self._unmapped.keep_former_of(live, self._shown or ())
        self._history.keep_that_of(live, self._shown or ())
        chains, problems = self._judged(live, facts)
        missing = self._missing(facts, live)
        missing += [f"nothing of logical queue {i} can be shown" for i in live if i not in chains]
        found = (*problems, *missing)
        if is_waiting:
            return ShownTopic(Status.NOT_YET, problems=found)
        if not missing:
            self._shown = chains
            self._hold_reported()
        elif self._shown is None:
            return ShownTopic(Status.PLAIN, problems=found)
        else:
            used = queues_of(live)
            self._shown = {i: chains.get(i) or self._left_of(i, used) for i in self._shown}
        return ShownTopic(Status.LOGICAL, facts.addressed(self._shown), found)

    def _hold_reported(self) -> None:
        self.held = {name: reported.held for name, reported in self._reported.items()}

    def _judged(
        self, live: Mapping[int, Chain], facts: Facts
    ) -> tuple[dict[int, Chain], list[str]]:
        doubtful = doubtful_segments(s for chain in live.values() for s in chain)
        chains, problems = {}, []
        gaps = reported_gaps(found.report for found in self._reported.values())
        used = queues_of(live)
        for index, chain in live.items():
            before = (self._shown or {}).get(index, Chain(index))
            past = self._history.of(before, gaps[index])
            judged = judge(
                chain,
                has_master=lambda name: facts.master_address(name) is not None,
                follows=past.follows,
                is_known_gap=partial(self._is_known_gap, past),
                is_doubtful=doubtful.__contains__,
            )
            if judged.problem is not None:
                problems.append(f"logical queue {index}: {judged.problem}")
            if best := judged.chain or self._left_of(index, used):
                chains[index] = best
        return chains, problems

    def _is_known_gap(self, past: Past, before: Segment | None, after: Segment) -> bool:
        # A broker of 5.0.0-PREVIEW cannot say that an operator forced its first offset.
        is_mute = self._reported[after.broker_name].report is None
        return (is_mute and past.follows(before, after)) or past.is_known_gap(before, after)

    def _left_of(self, index: int, used: set[tuple[str, int]]) -> Chain:
        """Return the segments of a logical queue that clients know, as far as nothing contradicts
        them."""
        shown = (self._shown or {}).get(index, ())
        return Chain(index, (s for s in shown if (s.broker_name, s.queue_id) not in used))

    def _missing(self, facts: Facts, live: Mapping[int, Chain]) -> list[str]:
        """Return what should be in a logical queue and is not."""
        is_shown = self._shown is not None
        missing = self._unmapped.missing(facts, live, self._reported, is_shown=is_shown)
        # A broker of lanemq lists a logical queue without segments if others have some.
        listed = {i for found in self._reported.values() if found.report for i in found.queues}
        missing += [
            f"nobody has reported segments of logical queue {index}"
            for index in self._shown or ()
            if index not in live and index in listed
        ]
        return missing

    def _forget_segments(self, broker_name: str, keep: set[SegmentKey]) -> list[Segment]:
        """Drop a broker's segments, in whatever logical queue, but for those to come; returns
        them."""
        reported = self._reported.get(broker_name)
        known = () if reported is None else reported.queues.segments
        lost = [segment for segment in known if segment.key not in keep]
        self._history.removed(lost)
        return lost
