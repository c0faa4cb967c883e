"""Checks of transactions that do not end: their producers are asked for the outcome.

Every check renews its half message: a copy goes to the end of the half queue, and the producer's
answer names the copy. One that was asked about too often, or is older than the log's files, goes
to TRANS_CHECK_MAX_TIME_TOPIC, from where an operator may have it checked again.

Source: RocketMQ 4.9.8, TransactionalMessageCheckService, TransactionalMessageServiceImpl.check,
AbstractTransactionalMessageCheckListener.
"""

from collections.abc import Callable
from typing import Final, Self, final

import trio
from attrs import define, field
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.storage import NewMessage, Put, Store, Unit
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import request
from lanemq.wire.headers import CheckTransactionState
from lanemq.wire.message import Property, StoredMessage, encode_message

from ...acl import Rights, Sender, produces_as, sends_to
from ...net._session import Session
from ...net._turns import LOOKS_OF_A_STEP
from ...sessions.state._clients import ClientRegistry
from ...sessions.values._waiting import no_target, target_of
from ..context._context import BrokerContext
from ..settings._config import BrokerConfig
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ..writing._writer import Writer
from ._rules import (
    QUEUE_ID,
    CheckRules,
    Passed,
    Treatment,
    asked_message,
    check_times,
    discarded_message,
    origin_of,
    renewed_message,
)
from ._table import BATCH, BATCH_BYTES, HALF, HalfTable

LOGGER = get_logger("lanemq.proxy.broker.transactions", by_peers=True)

HOUR_MS: Final = 3_600_000
TRIED_MAX: Final = 64
"""Members of a producer group of which one is looked for that may be asked about a half message."""


@final
@define(eq=False, kw_only=True, repr=False)
class Checks:
    """The checks of one broker's transactions; ``run`` is their task."""

    _clients: ClientRegistry[Session]
    _commit: Callable[[], None]
    _config: BrokerConfig
    _now_ms: Callable[[], int]
    _rights_of: Callable[[Sender, str], Rights]
    _statistics: BrokerStatistics
    _store: Store
    _table: HalfTable
    _topics: Topics
    _writer: Writer
    _turn: int = field(init=False, default=0)
    _rules: CheckRules | None = field(init=False, default=None)
    _passed: dict[int, Passed] = field(init=False, factory=dict)
    """Half messages that the last round has passed over, by the first of each stretch: one whose
    producer asked for an hour is not read again in every round."""
    _checking: trio.Lock = field(init=False, factory=trio.Lock)

    @classmethod
    def of(cls, broker: BrokerContext, table: HalfTable) -> Self:
        """Return the checks of the transactions of ``broker``."""
        return cls(
            table=table,
            clients=broker.clients,
            commit=broker.commit,
            config=broker.config,
            now_ms=broker.now_ms,
            rights_of=broker.rights_of,
            statistics=broker.statistics,
            store=broker.store,
            topics=broker.topics,
            writer=broker.writer,
        )

    async def run(self) -> None:
        """Read the table, then check in every interval, until cancelled."""
        if not self._table.loaded.is_set():
            await self._table.load()
        while True:
            await trio.sleep(self._config.transaction_check_interval / 1000)
            await self.check()

    async def check(self) -> None:
        """Ask about every transaction that has had time enough to end."""
        await self._table.loaded.wait()
        async with self._checking:
            try:
                await self._round()
            except Refused as error:
                LOGGER.warning("transactions cannot be checked now: %s", error.remark)
            while self._table.halves.advance():
                await trio.lowlevel.checkpoint()
            self._table.keep()

    async def _round(self) -> None:
        halves = self._table.halves
        config, store = self._config, self._store
        least, end = store.bounds(HALF, QUEUE_ID)
        halves.skip(min(least, end))
        offset = halves.next_open(halves.begin)
        if offset >= end:
            return
        rules = CheckRules(
            timeout_ms=config.transaction_time_out,
            times_max=config.transaction_check_max,
            reserved_ms=round(store.config.file_reserved_hours * HOUR_MS),
        )
        before = self._passed if rules == self._rules else {}
        self._rules, self._passed = rules, {}
        looks = 0
        while offset < end:
            passed = before.get(offset)
            if passed is not None and passed.holds(now_ms=self._now_ms(), end=end):
                self._passed[offset] = passed
                offset, looks = passed.behind, looks + 1
            else:
                # Up to a place that stays the same, whatever ends in between.
                count = min(BATCH - offset % BATCH, end - offset)
                units = store.units(HALF, QUEUE_ID, offset, count)
                if not units:
                    return
                offset, goes_on = self._batch(offset, units, rules, end)
                if not goes_on:
                    return
                looks = LOOKS_OF_A_STEP
            offset = halves.next_open(offset)
            if looks >= LOOKS_OF_A_STEP:
                looks = 0
                await trio.lowlevel.checkpoint()

    def _batch(
        self, offset: int, units: list[Unit], rules: CheckRules, end: int
    ) -> tuple[int, bool]:
        """Judge half messages from ``offset`` on, of a queue up to ``end``; returns the next
        offset, and whether to continue."""
        table, now_ms = self._table, self._now_ms()
        then: list[Callable[[], None]] = []
        taken_bytes, goes_on = 0, True
        passed: list[tuple[int, int]] = []
        for unit in units:
            is_ending = offset in table.under_way
            if is_ending:
                passed.append((offset, now_ms))  # it stays open where its end cannot be written
            if is_ending or table.halves.next_open(offset) != offset:
                offset += 1
                continue
            half = table.read(unit)
            verdict = None
            if half is not None:
                verdict = rules.judge(half, now_ms=now_ms, end=end)
            if verdict is Treatment.WAIT or taken_bytes > BATCH_BYTES:
                goes_on = verdict is not Treatment.WAIT
                break
            if half is None:
                LOGGER.error("half message %d is lost: nobody is asked about it", offset)
                table.halves.discarded(offset)
            elif verdict is Treatment.CHECK:
                then.append(self._renew(half))
            elif verdict is Treatment.DISCARD:
                then.append(self._discard(half))
            else:
                until_ms = rules.passed_until_ms(half, now_ms=now_ms)
                passed.append((offset, now_ms if until_ms is None else until_ms))
            taken_bytes += unit.size_bytes
            offset += 1
        self._commit()
        for step in then:
            step()
        if passed:
            first, until_ms = passed[0][0], min(until_ms for _, until_ms in passed)
            self._passed[first] = Passed(first, offset, since_ms=now_ms, until_ms=until_ms)
        return offset, goes_on

    def _renew(self, half: StoredMessage) -> Callable[[], None]:
        """Append the copy of a half message; returns what is to be done once it is stored."""
        target = target_of(half)
        if target is None:
            LOGGER.error("half message %d: %s", half.queue_offset, no_target(half))
            return self._discard(half)
        times = max(check_times(half), 0) + 1
        copy = renewed_message(half, times=times)
        put = self._append(copy)
        if put is None:
            return self._discard(half)

        def then() -> None:
            self._table.halves.renewed(origin_of(half), half.queue_offset, put.queue_offset)
            self._ask(half, copy, put, target)

        return then

    def _discard(self, half: StoredMessage) -> Callable[[], None]:
        """Append a half message where it is kept; returns as ``_renew``."""
        kept = discarded_message(half)
        self._topics.ensure(kept.topic, queues=1)
        self._append(kept)

        def then() -> None:
            LOGGER.error(
                "the half message %s of group %s is put aside in %s: asked about %d times",
                half.properties.get(Property.UNIQ_KEY, half.offset_id),
                half.properties.get(Property.PGROUP),
                kept.topic,
                max(check_times(half), 0),
            )
            self._table.halves.discarded(half.queue_offset, origin_of(half))
            target = target_of(half)
            if target is not None:
                self._writer.give_up_half(target[0], half.properties_data, origin_of(half))

        return then

    def _append(self, message: NewMessage) -> Put | None:
        """Append a message; None where it breaks a limit. Raises ``Refused`` for other errors."""
        try:
            put = self._writer.append(message)
        except Refused as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            LOGGER.warning("a half message cannot be stored again: %s", error.remark)
            return None
        self._statistics.put(message.topic, 1, put.size_bytes)
        return put

    def _ask(
        self, half: StoredMessage, copy: NewMessage, put: Put, target: tuple[str, int]
    ) -> None:
        """Send CHECK_TRANSACTION_STATE (39) to a producer of the group, if one is connected."""
        group = half.properties.get(Property.PGROUP, "")
        session = self._producer(group, target[0])
        if session is None:
            LOGGER.warning("no producer of group %s is connected that may be asked", group)
            return
        stored = replace(
            half,
            queue_offset=put.queue_offset,
            log_position=put.log_position,
            properties_data=copy.properties,
            size_bytes=put.size_bytes,
        )
        key = half.properties.get(Property.UNIQ_KEY)
        header = CheckTransactionState(
            tran_state_table_offset=put.queue_offset,
            commit_log_offset=put.log_position,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=stored.offset_id,
        )
        body = encode_message(asked_message(stored, target))
        session.oneway(
            request(RequestCode.CHECK_TRANSACTION_STATE, header.to_fields(), body=body, oneway=True)
        )

    def _producer(self, group: str, topic: str) -> Session | None:
        """Return a producer of the group that may send to a topic now, each of them in turn."""
        members = list(self._clients.producers(group))
        full: Session | None = None
        for _ in range(min(len(members), TRIED_MAX)):
            self._turn += 1
            one = members[self._turn % len(members)]
            if one.session.closed:
                continue
            rights = self._rights_of(one.sender, one.session.peer.host)
            if rights.may(sends_to(topic), produces_as(group)):
                # Half messages that others send under a group's name fill what its members have to
                # read; the check counts, so one of them is asked in any case.
                if one.session.has_room:
                    return one.session
                full = full or one.session
        return full
