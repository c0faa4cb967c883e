"""The queue of those who wait for a lock: an entry of each under the lock's key."""

import secrets
from collections.abc import Set
from typing import Final, final

from lanemq.wire import RequestCode
from lanemq.wire.headers import Header, KvGet, KvScan, KvWatch
from lanemq.wire.kv import (
    KEY_BYTES_MAX,
    PAGE_ENTRIES_MAX,
    Action,
    ChangeKind,
    OpType,
    Page,
    Step,
    decode_answer,
    decode_entry,
    encode_key,
    encode_steps,
    partition_of,
)

from .requests._attempts import Attempts
from .requests._calls import KvCalls
from .requests._errors import KvCompacted
from .requests._waits import changes_after

WAITING: Final = b"/waiting/"
NUMBER_BYTES: Final = 8
LOCK_BYTES_MAX: Final = KEY_BYTES_MAX - len(WAITING) - 2 * NUMBER_BYTES
LOOK_S: Final = 20.0
"""Seconds after which a client that waits looks whether its own entry is still there."""


class TicketGone(Exception):  # noqa: N818 - says what happened
    """Its entry is no longer there: it was deleted, or its lease has ended."""


@final
class LockQueue:
    """The place of one client in the queue of a lock.

    Entries are ``KEY/waiting/NUMBER``, in the partition of the lock, and the order is that in
    which they were put. Each waits for the one that was put last before it.
    """

    def __init__(self, calls: KvCalls, key: bytes) -> None:
        self._calls = calls
        self._key = key
        self.ticket: bytes | None = None
        """The key of its entry; None outside of the queue."""
        self._since = 0

    async def join(self, value: bytes, lease: int) -> None:
        """Put its entry at the end. Raises ``NoLease``, and as a put."""
        partitions = await self._calls.sure_partitions()
        while True:
            number = secrets.token_hex(NUMBER_BYTES).encode()
            ticket = self._key + WAITING + number
            if partition_of(ticket, partitions) == partition_of(self._key, partitions):
                break
        self.ticket = ticket
        step = Step(ticket, Action.PUT, value, ttl_ms=-lease)
        answer = await self._calls.write(self._key, OpType.PUT, encode_steps([step]))
        self._since = answer.position

    async def until_first(self) -> None:
        """Return when nobody is before it any more, nor ever will be. Raises ``TicketGone``.

        The queue is read when it was joined, and again when the one before it is gone.
        """
        while True:
            waiters, position = await self._all()
            if self.ticket not in waiters:
                raise TicketGone
            before = [(at, key) for key, at in waiters.items() if at < self._since]
            if not before:
                return
            await self.until_gone({max(before)[1]}, position)

    async def until_free(self, position: int) -> None:
        """Wait until the lock was given up after a position of its log. Raises ``TicketGone``."""
        mine = set() if self.ticket is None else {self.ticket}
        await self.until_gone({self._key} | mine, position)
        await self._check_ticket()

    async def is_empty(self, attempts: Attempts) -> bool:
        """Return whether nobody waits."""
        cursor = None
        while True:
            page = await self._page(1, cursor, attempts)
            if page.entries or page.cursor is None:
                return not page.entries
            cursor = encode_key(page.cursor)

    async def _all(self) -> tuple[dict[bytes, int], int]:
        """Return the keys of those who wait, each with its position, and that of the answer."""
        found, cursor, position = dict[bytes, int](), None, -1
        while True:
            page = await self._page(PAGE_ENTRIES_MAX, cursor, self._calls.attempts())
            found.update((one.key, one.modified) for one in page.entries)
            position = page.position if position < 0 else position
            if page.cursor is None:
                return found, position
            cursor = encode_key(page.cursor)

    async def _page(self, limit: int, cursor: str | None, attempts: Attempts) -> Page:
        header = KvScan(
            prefix=encode_key(self._key + WAITING),
            namespace=self._calls.namespace,
            cursor=cursor,
            limit=limit,
            keys_only=True,
        )
        ask = self._calls.ask(self._key, RequestCode.KV_SCAN, header, attempts=attempts)
        return decode_answer(await ask, Page)

    async def until_gone(self, keys: Set[bytes], position: int) -> None:
        """Wait until one of some keys, which begin as the shortest does, is removed or expires
        after a position, or until that is no longer known. Raises ``TicketGone``."""
        index = 0

        async def ask(header: Header, *, wait_s: float) -> bytes:
            return await self._calls.ask(self._key, RequestCode.KV_WATCH, header, wait_s=wait_s)

        while True:
            header = KvWatch(
                position=position,
                index=index,
                prefix=encode_key(min(keys)),
                namespace=self._calls.namespace,
            )
            try:
                found = await changes_after(header, LOOK_S, ask)
            except KvCompacted:
                return
            position, index = found.next_position, found.next_index
            if any(one.key in keys and one.kind != ChangeKind.PUT for one in found.changes):
                return
            if not found.changes:
                await self._check_ticket()

    async def _check_ticket(self) -> None:
        """Look whether its entry is still there. Raises ``TicketGone``."""
        if self.ticket is None:
            return
        header = KvGet(key=encode_key(self.ticket), namespace=self._calls.namespace)
        if decode_entry(await self._calls.ask(self._key, RequestCode.KV_GET, header)) is None:
            raise TicketGone
