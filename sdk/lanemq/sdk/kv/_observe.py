"""The leaders of a name, one after another."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvScan
from lanemq.wire.kv import ChangeKind, Entry, Page, decode_answer, encode_key, partition_of

from .requests._calls import KvCalls, OtherPartitions
from .requests._errors import KvCompacted
from .requests._feed import Feed, Wanted

MARK: Final = b"#"


@final
@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """A leader, or that there is none."""

    owner: bytes | None
    """The name that the leader has given itself; None while there is none."""
    fencing: int
    """Its number: every later leader has a higher one. 0 while there is none."""


@final
class Leaders:
    """The leaders of a name: the present one, and then each change. Made by ``observe``.

    ``async for`` gives one after another, without an end, over restarts of the broker. Where
    more has changed than brokers remember, the latest one comes next.
    """

    def __init__(self, calls: KvCalls, key: bytes) -> None:
        self._calls = calls
        self._key = key
        self._feed: Feed | None = None
        self._last: bytes | None = b""
        """The value of the entry that was seen last; None where there was none."""
        self._ready = deque[LeaderSeen]()

    def __aiter__(self) -> "Leaders":
        return self

    async def __anext__(self) -> LeaderSeen:
        """Return the next one, as soon as there is one.

        A namespace that is missing is made, if it may be. Raises as ``KeyValueStore.put``.
        """
        while not self._ready:
            try:
                if self._feed is None:
                    begin = partial(self._calls.of_all, self._begun)
                    self._feed = await self._calls.surely(begin)
                elif self._feed.is_empty:
                    await self._feed.fill()
                else:
                    self._take(self._feed)
            except (KvCompacted, OtherPartitions):
                self._feed = None
        return self._ready.popleft()

    def _give_back(self, seen: LeaderSeen) -> None:
        """Put what its reader did not get back to the front."""
        self._ready.appendleft(seen)

    async def _begun(self, partitions: int) -> Feed:
        """Note the leader there is, and return what changes from then on."""
        partition = partition_of(self._key, partitions)
        header = KvScan(prefix=encode_key(self._key), namespace=self._calls.namespace, limit=1)
        ask = partial(self._calls.ask_at, partition, partitions, RequestCode.KV_SCAN, header)
        page = decode_answer(await ask(attempts=self._calls.attempts()), Page)
        # The key itself is the first of all that begin with it.
        there = next((one for one in page.entries if one.key == self._key), None)
        self._note(there)
        return Feed(self._calls, Wanted(self._key), partition, partitions, page.position)

    def _note(self, entry: Entry | None) -> None:
        value = None if entry is None else entry.value
        self._seen(value, 0 if entry is None else entry.revision)

    def _take(self, feed: Feed) -> None:
        change = feed.take()
        if change.key == self._key:
            is_put = change.kind == ChangeKind.PUT
            self._seen(change.value if is_put else None, change.position + 1)

    def _seen(self, value: bytes | None, revision: int) -> None:
        if value != self._last:  # holders of earlier versions put the same again and again
            self._last = value
            owner = None if value is None else value.rpartition(MARK)[0]
            self._ready.append(LeaderSeen(owner, 0 if value is None else revision))
