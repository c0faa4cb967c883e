"""The rows of a route table: the queues of each topic at each broker.

A broker may have some ten thousand rows, so no call walks over all of them: rows of a broker that
has left are passed over from then on, and removed a few at a time by later calls; a permission that
changes for all rows of a broker is noted at the broker, and applied to a row when it is read.

Nor does a collection of garbage, which holds the whole process while it walks over all containers:
rows are none, and a dict of rows alone is not looked into.
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Final, final

import msgspec

from lanemq.wire import KV_PREFIX, TOPIC_QUEUES_MAX, Permission, queue_ids
from lanemq.wire.bodies import QueueData

ROW_BYTES: Final = 512
"""The size of a broker's row for a topic in memory, without its name."""
ROWS_OF_A_STEP: Final = 500
"""Topics that one step of a long work looks at, at some microseconds each."""
ROWS_LOOKED_AT: Final = 4000
"""Rows that one step of a search looks at, at a fifth of a microsecond each."""
TOPIC_ROWS: Final = 8
"""Rows that take as long to look at as a topic by itself."""
SWEPT_AT_ONCE: Final = 8
"""Rows of brokers that have left which one call removes, for each row that it looks at."""

_QUEUES: Final = queue_ids(TOPIC_QUEUES_MAX)


def bounded(queues: int) -> int:
    """Return the number of queues that clients are told of where a broker says ``queues``."""
    return queues if queues in _QUEUES else len(queue_ids(queues))


@final
class Owner:
    """A broker name with its rows, from its first registration to the end of its last address."""

    __slots__ = ("_opened", "_wiped", "changes", "is_here", "logs", "name", "size_bytes", "topics")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_here = True
        self.topics: dict[str, None] = {}
        """The topics of its rows."""
        self.logs: dict[str, None] = {}
        """Of these, the logs of keys."""
        self.size_bytes = 0
        """The size of its rows in memory, about."""
        self.changes = 0
        """Number of the changes of all its permissions."""
        self._wiped = self._opened = 0  # the numbers of the last change of each kind

    def wipe_write(self) -> None:
        """Make every row that it has now read-only."""
        self.changes += 1
        self._wiped = self.changes

    def open_all(self) -> None:
        """Make every row that it has now readable and writable."""
        self.changes += 1
        self._opened = self.changes

    def perm(self, perm: int, since: int) -> int:
        """Return the permission of a row that had ``perm`` after ``since`` changes."""
        if self._opened > since:
            perm = Permission.READ | Permission.WRITE
        if self._wiped > max(since, self._opened):
            perm &= ~Permission.WRITE
        return perm


@final
class Row(msgspec.Struct, eq=False, gc=False):
    """The queues of a topic at one broker. It refers to no row, so nothing else frees it."""

    owner: Owner
    read_queue_nums: int
    write_queue_nums: int
    topic_sys_flag: int
    _perm: int
    """The permission that it had after the changes of all its broker's, up to ``_since``."""
    _since: int
    _shown: QueueData | None = None

    @property
    def is_here(self) -> bool:
        """True until its broker has left."""
        return self.owner.is_here

    def queue(self) -> QueueData:
        """Return the queues as routes have them; they are made when they are asked for."""
        owner, shown = self.owner, self._shown
        if shown is None or self._since != owner.changes:
            self._perm, self._since = owner.perm(self._perm, self._since), owner.changes
            shown = self._shown = QueueData(
                broker_name=owner.name,
                read_queue_nums=self.read_queue_nums,
                write_queue_nums=self.write_queue_nums,
                perm=self._perm,
                topic_sys_flag=self.topic_sys_flag,
            )
        return shown


@final
class Rows:
    """The rows of all brokers."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Row]] = {}
        self._count = 0
        self._leaving: deque[Owner] = deque()

    def __len__(self) -> int:
        """Return the number of topics, those of brokers that have left included."""
        return len(self._rows)

    @property
    def is_quick(self) -> bool:
        """True if one step of ``matching`` looks at everything."""
        return self._count + TOPIC_ROWS * len(self._rows) <= ROWS_LOOKED_AT

    def put(self, topic: str, row: Row) -> None:
        """Add or replace the row of a broker that is here."""
        owner = row.owner
        if topic not in owner.topics:
            owner.topics[topic] = None
            owner.size_bytes += ROW_BYTES + len(topic)
            if topic.startswith(KV_PREFIX):
                owner.logs[topic] = None
        rows = self._rows.setdefault(topic, {})
        self._count += owner.name not in rows
        rows[owner.name] = row
        if self._leaving:
            self._sweep(SWEPT_AT_ONCE)

    def remove(self, owner: Owner, topic: str) -> None:
        """Remove one row of a broker, if there is one."""
        if topic in owner.topics:
            del owner.topics[topic]
            owner.logs.pop(topic, None)
            owner.size_bytes -= ROW_BYTES + len(topic)
            self._drop(owner, topic)

    def leave(self, owner: Owner) -> None:
        """Pass over all rows of a broker from now on."""
        owner.is_here = False
        self._leaving.append(owner)

    def of_topic(self, topic: str) -> dict[str, QueueData]:
        """Return the queues of a topic by broker name; empty if no broker has it."""
        rows = self._rows.get(topic, {})
        found = {name: row.queue() for name, row in rows.items() if row.owner.is_here}
        if self._leaving:
            self._sweep(SWEPT_AT_ONCE * (1 + len(rows)))
        return found

    def matching(
        self, wanted: Callable[[str, Mapping[str, Row]], bool]
    ) -> Generator[None, None, list[str]]:
        """Find the topics that are ``wanted``, by their names and rows, in steps."""
        found: list[str] = []
        looked_at = 0
        for topic in list(self._rows):
            rows = self._rows.get(topic, {})
            if looked_at and looked_at + TOPIC_ROWS + len(rows) > ROWS_LOOKED_AT:
                yield
                looked_at, rows = 0, self._rows.get(topic, {})
            looked_at += TOPIC_ROWS + len(rows)
            here = {name: row for name, row in rows.items() if row.is_here}
            if here and wanted(topic, here):
                found.append(topic)
        return found

    def _sweep(self, count: int) -> None:
        """Remove some rows of brokers that have left."""
        leaving = self._leaving
        while count > 0 and leaving:
            owner = leaving[0]
            if not owner.topics:
                leaving.popleft()
                continue
            topic, _ = owner.topics.popitem()
            self._drop(owner, topic)
            count -= 1

    def _drop(self, owner: Owner, topic: str) -> None:
        rows = self._rows.get(topic, {})
        row = rows.get(owner.name)
        if row is not None and row.owner is owner:
            del rows[owner.name]
            self._count -= 1
            if not rows:
                del self._rows[topic]
