"""The share of one address in progress that nobody can use yet: of groups that the broker does not
know, in topics or queues that it does not have. ``ProgressRoom`` has a bound for all progress.

Apache 4.9.8 keeps any such commit, and clients count on it: a topic may be created a moment later,
and a tool may prepare a group. 5.3.3 refuses what it does not know. Offsets outlive the connection
that brought them, are all in memory, and are written and answered together. So they are kept here
up to a number, far smaller than that of all; what a group has committed before is always taken.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from lanemq.storage import OffsetTable
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.logical import PROGRESS_PREFIX, parse_progress_topic, progress_topic
from lanemq.wire.message import group_of_stage_group

from ...logical.rules._mapping import TopicMapping
from ...net._loop_watch import asking_host
from ...net.limits._quotas import PeerQuota
from ._groups import Groups
from ._progress_room import ProgressRoom
from ._topics import STORED_NAME_BYTES_MAX, Topics

OFFSETS_MAX: Final = 50_000
"""Offsets of all addresses together, since the start."""
STAGE_GROUPS_MAX: Final = 64
"""Shadow groups of a known group, one for each of its strategies, whose offsets are not counted."""
SWEEP_S: Final = 10.0
"""Seconds from one look at all of them to the next."""
SWEEP_STEP: Final = 1000
"""Offsets that one request looks at: some 2 ms."""

_Key = tuple[str, str, int]


@final
class UnknownProgress:
    """The offsets of unknown groups, topics and queues, with the addresses that brought them."""

    def __init__(
        self,
        offsets: OffsetTable,
        groups: Groups,
        topics: Topics,
        mappings: Mapping[str, TopicMapping],
        *,
        is_live: Callable[[str], bool],
        now_s: Callable[[], float],
    ) -> None:
        """Take the tables; ``is_live`` tells whether a consumer of a group is connected."""
        self._offsets = offsets
        self.room = ProgressRoom(offsets, now_s)
        """The room of all progress, which keeps it."""
        self._groups = groups
        self._topics = topics
        self._mappings = mappings
        self._is_live = is_live
        self._now_s = now_s
        self._by_host = PeerQuota[str](OFFSETS_MAX)
        self._hosts: dict[_Key, str] = {}
        self._shadows: dict[str, set[str]] = {}
        """The first shadow groups of each known group that somebody committed for."""
        self._swept_s = float("-inf")
        self._to_sweep: list[_Key] = []

    def check(self, group: str, topic: str, queue_id: int) -> None:
        """Check that a commit of the client whose request is handled may be kept, and count it
        where it is of something unknown.

        Raises ``Refused``: SYSTEM_ERROR for a name that is too long, and SYSTEM_BUSY beyond
        the share of the client's address. The broker's own work has no bounds.
        """
        host = asking_host()
        if host is None or self._offsets.get(group, topic, queue_id) is not None:
            return
        self.room.require()
        if self._has_queue(topic, queue_id) and self._knows_group(group):
            return
        _check_names(group, topic)
        if not self._by_host.has_room(host):
            self._sweep()
        if not self._by_host.has_room(host):
            remark = (
                f"offset of group {group} in {topic}/{queue_id}: the broker does not know the "
                f"group, the topic or the queue, and has {self._by_host.held_by(host)} such "
                f"offsets from {host} and {len(self._by_host)} of the {OFFSETS_MAX} that it "
                "keeps: create the group and the topic first"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        self._by_host.take(host)
        self._hosts[group, topic, queue_id] = host

    def _has_queue(self, topic: str, queue_id: int) -> bool:
        if topic.startswith(PROGRESS_PREFIX):
            parsed = parse_progress_topic(topic)
            mapping = None if parsed is None else self._mappings.get(parsed.topic)
            if parsed is None or mapping is None or topic != progress_topic(*parsed):
                return False
            chain = mapping.queues.get(queue_id, ())
            return any(segment.delta == parsed.delta for segment in chain)
        config = self._topics.get(topic)
        return config is not None and 0 <= queue_id < config.queue_count

    def _knows_group(self, group: str) -> bool:
        name = group_of_stage_group(group)
        if name is None:
            return self._is_known(group)
        if not self._is_known(name):
            return False
        shadows = self._shadows.setdefault(name, set())
        if group not in shadows and len(shadows) < STAGE_GROUPS_MAX:
            shadows.add(group)
        return group in shadows

    def _is_known(self, group: str) -> bool:
        return self._groups.get(group) is not None or self._is_live(group)

    def _sweep(self) -> None:
        """Forget those that were deleted, or are known by now: a step of them for each request
        that finds no room.
        """
        now_s = self._now_s()
        if not self._to_sweep:
            if now_s - self._swept_s < SWEEP_S:
                return
            self._swept_s, self._to_sweep = now_s, list(reversed(self._hosts))
        for key in self._to_sweep[: -SWEEP_STEP - 1 : -1]:
            group, topic, queue_id = key
            is_kept = self._offsets.get(*key) is not None
            if not is_kept or (self._has_queue(topic, queue_id) and self._knows_group(group)):
                self._by_host.give_back(self._hosts.pop(key))
        del self._to_sweep[-SWEEP_STEP:]


def _check_names(group: str, topic: str) -> None:
    for kind, name in (("group", group), ("topic", topic)):
        size_bytes = len(name.encode())
        if size_bytes > STORED_NAME_BYTES_MAX:
            remark = (
                f"no offset is kept of a {kind} with a name of {size_bytes} bytes: at most "
                f"{STORED_NAME_BYTES_MAX} are allowed"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
