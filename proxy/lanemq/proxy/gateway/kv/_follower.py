"""The follower of an upstream queue: pulls records, and has them applied.

After an error of a pull it reads the last record again. A queue that has another one there, or
ends before, has lost records that had been given out; then the state is made again.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError

from ._known import LostLog, OtherLog
from ._log_name import birth_of
from ._partition import Applied, LastRecord, PartitionState
from ._queue import LogQueue, NoAccount, NotYet, Pulled
from ._snapshots import read_snapshots

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
PULL_WAIT_S: Final = 15.0
"""Seconds that a pull waits for a record."""
PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Seconds before the next try after so many that failed in a row."""
OTHER_S: Final = 10.0
"""Seconds until a log that is not the one that is known is read again."""
SHRUNK_S: Final = 3.0
"""Seconds for which a queue has to be shorter than what was read of it before its state is made
again: a broker that has just become the master may still be reading its log."""


class LogBroken(Exception):  # noqa: N818 - says what happened
    """The log has not the records that the state was made of, or that it would be made of."""


@final
class Follower:
    """The state of one partition, kept up to the end of its queue; ``run`` is its task."""

    def __init__(
        self,
        queue: LogQueue,
        snapshots: LogQueue,
        *,
        name: str,
        writer: str,
        place: tuple[int, int],
        applied: Applied,
        rng: random.Random,
    ) -> None:
        """``place`` is the partition, and how many there are; see ``PartitionState.apply``."""
        self._queue = queue
        self._snapshots = snapshots
        self._name = name
        self._writer = writer
        self._place = place
        self._applied = applied
        self._rng = rng
        self.kept = PartitionState(*place)
        """The state with the latest records of its log; another one after its log was broken."""
        self.news = trio.Event()
        """The event that is set when something more is applied."""
        self.on_news: list[Callable[[], None]] = []
        """Callbacks for the same."""
        self.check: Callable[[str], None] = lambda _: None
        """Checks the identity of the log that was read to its end. Raises ``OtherLog``."""
        self.check_birth: Callable[[str, bool], None] = lambda *_: None
        """Checks the birth of the log before any of its records counts, and again at its end, with
        whether the namespace was dropped; it is empty where there are no records. Raises
        ``OtherLog``, ``NotYet``."""
        self.opened = trio.Event()
        """Set when the state has been brought up to the end of the log; another one after that
        was broken, or its broker began to ask for an account."""
        self.end = 0
        """The end of the queue by the last answer."""
        self.why = "it is being read"
        """The reason why nothing is served; empty if all is well."""
        self.is_missed = False
        """True while the log that is known is not there: it takes somebody to help."""
        self.is_lost = False
        """True if the beginning of the log is gone, and no snapshot has it."""
        self.begin = 0
        """The first record that is still there, by the last answer."""
        self._is_loaded = False
        """True once snapshots were looked for."""
        self._from = ""
        """The snapshot that the state was made of."""
        self._rejected: set[str] = set()
        """Snapshots of records that the log has not."""
        self._is_sure = False
        """False from an error of a pull on until the log is seen to have what was applied."""
        self._shrunk_s: float | None = None

    async def run(self) -> None:
        """Follow the log, until cancelled."""
        failures = 0
        while True:
            try:
                if not self._is_loaded:
                    await self._load()
                await self._pull()
            except NotYet as error:
                self._is_sure = False
                self.is_missed = self.is_missed or isinstance(error, LostLog)
                if isinstance(error, (LostLog, NoAccount)) or not self.is_missed:
                    self.why = str(error)
                if isinstance(error, NoAccount):
                    self._close()  # whoever may read the log now, not everybody may
                if not failures:
                    LOGGER.warning("the log of keys %s cannot be read now: %s", self._name, error)
                if isinstance(error, OtherLog):
                    self._restart()
                    await trio.sleep(OTHER_S)
                await self._pause(failures)
                failures += 1
            except LogBroken as error:
                LOGGER.critical("keys %s: %s", self._name, error)
                self.why = str(error)
                self._restart()
                await self._pause(len(PAUSES_S))
            else:
                failures = 0

    async def _pause(self, failures: int) -> None:
        pause_s = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
        await trio.sleep(pause_s * self._rng.uniform(0.5, 1.0))

    async def _pull(self) -> None:
        """Pull once, and apply what comes. Raises ``NotYet``, ``LogBroken``."""
        kept = self.kept
        # After an error, the last record is read again: is it still that one?
        last = None if self._is_sure else kept.last
        begin = kept.next if last is None else last.offset
        is_behind = not self._is_sure or kept.next < self.end
        pulled = await self._queue.pull(begin, wait_s=0.0 if is_behind else PULL_WAIT_S)
        self._check(pulled, last)
        records = deque(pulled.records)
        if last is not None and records:
            records.popleft()
        self.begin = pulled.begin
        self.end = max(pulled.end, kept.next + len(records))
        if not records and self._is_sure and self.end > kept.next:
            raise NotYet(f"the log ends at {self.end}, and its broker gives no record {kept.next}")
        self._is_sure = True
        while records:
            if records[0].offset != kept.next:
                raise NotYet(
                    f"record {kept.next} is next, and the broker gives {records[0].offset}"
                )
            kept.apply(records, trio.current_time(), self._applied, writer=self._writer)
            await trio.lowlevel.checkpoint()
        if kept.next >= self.end:
            self.check(kept.state.meta.identity)
            self.check_birth(kept.birth, kept.state.meta.deleted)
            self.opened.set()
        self.why = ""
        self.is_missed = False
        self._tell()

    async def _load(self) -> None:
        """Begin with the latest snapshot of the log, if there is one. Raises ``NotYet``.

        What is applied is answered, so no record of another log may be.
        """
        bounds = await self._queue.pull(0, wait_s=0.0)
        first = next((birth_of(one) for one in bounds.records if not one.offset), "")
        if first or not bounds.end:
            self.check_birth(first, False)
        elif not bounds.begin:
            raise NotYet(f"the log ends at {bounds.end}, and its broker gives no record 0")
        await self._restore(bounds, first)
        if not first and self.kept.birth:
            self.check_birth(self.kept.birth, False)
        self._is_loaded = True

    async def _restore(self, bounds: Pulled, first: str) -> None:
        """Make the state of the latest snapshot that is one of the log; ``first`` is its birth,
        empty where its first record is gone. Raises ``NotYet``."""
        reader = await read_snapshots(self._snapshots)
        self._from = ""
        for found in reader.ids():
            if found in self._rejected or reader.position_of(found) > bounds.end:
                continue
            try:
                snapshot = await reader.restore(found, self._place)
            except RemoteProtocolError as error:
                LOGGER.error("a snapshot of keys %s cannot be read: %s", self._name, error)
                continue
            if first and snapshot.birth not in {"", first}:
                self._rejected.add(found)  # the log was made again since
                continue
            self.kept = PartitionState(*self._place, kept=snapshot.table)
            self.kept.restore(
                snapshot.last,
                told_ms=snapshot.told_ms,
                told_stored_ms=snapshot.told_stored_ms,
                now_s=trio.current_time(),
                birth=snapshot.birth,
                first=first,
            )
            self._from = found
            LOGGER.info("keys %s begin with a snapshot of %d records", self._name, self.kept.next)
            break

    def _check(self, pulled: Pulled, last: LastRecord | None) -> None:
        """Check that the queue continues what was applied. Raises ``NotYet``, ``LogBroken``."""
        position = self.kept.next
        self.is_lost = pulled.begin > position
        if self.is_lost:
            raise LogBroken(
                f"the log begins at record {pulled.begin}, record {position} is needed, and there "
                "is no snapshot with it: nothing is served"
            )
        is_other = (
            last is not None and bool(pulled.records) and LastRecord.of(pulled.records[0]) != last
        )
        if pulled.end >= position and not is_other:
            self._shrunk_s = None
            return
        if self._from and self.kept.is_untouched:
            self._rejected.add(self._from)
            raise LogBroken("the latest snapshot is not one of this log, and is left out")
        now_s = trio.current_time()
        if self._shrunk_s is None:
            self._shrunk_s = now_s
        if now_s - self._shrunk_s < SHRUNK_S:
            raise NotYet(f"the log ends at record {pulled.end}, and {position} were read of it")
        self._shrunk_s = None
        raise LogBroken(
            f"the upstream broker has lost records before {position} of the log, which had been "
            "acknowledged: the state is made again from what it has"
        )

    def _restart(self) -> None:
        self.kept = PartitionState(*self._place)
        self._is_sure = False
        self.end = 0
        self._close()
        self._is_loaded = False

    def _close(self) -> None:
        """Let nothing be read until the end of the log has been seen again."""
        if self.opened.is_set():
            self.opened = trio.Event()

    def _tell(self) -> None:
        news, self.news = self.news, trio.Event()
        news.set()
        for tell in self.on_news:
            tell()
