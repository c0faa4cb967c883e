"""Requests about RocksDB: its queues compared with files (354), its tables as JSON files (355).

Of a check (354), mqadmin of 5.3.2 and later is told that it has begun, and the result goes into
the log; that of 5.3.1 waits for a text; lanemq's own asks for the result itself.
Source: RocketMQ 5.3.1 and 5.3.3, AdminBrokerProcessor.checkRocksdbCqWriteProgress,
exportRocksDBConfigToJson.
"""

from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger
from lanemq.storage import DiffReport, QueueDiff, Stage, Store, disk_problem
from lanemq.wire import Refused, RequestCode, ResponseCode, listed
from lanemq.wire.bodies import (
    CheckRocksdbCqWriteProgressBody,
    CheckRocksdbCqWriteResult,
    CheckStatus,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CheckRocksdbCqWriteProgress, ExportRocksdbConfigToJson

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ...net._session_places import SessionPlaces

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)

ROCKSDB_ALONE: Final = "storeType is DEFAULT_ROCKSDB, no need check"
FILES_ALONE: Final = "rocksdbCQWriteEnable is false, checkRocksdbCqWriteProgressCommand is invalid"
CONFIG_TYPES: Final = ("topics", "subscriptionGroups", "consumerOffsets")
WAITING_MAX: Final = 8
SHOWN_QUEUES: Final = 50


@final
class QueueChecks:
    """The checks, one at a time; those whose result goes into the log wait for their turn."""

    def __init__(self, *, store: Store) -> None:
        self._store = store
        self._one_at_a_time = trio.Lock()
        self._places = SessionPlaces(WAITING_MAX)
        self._for_log, self._to_run = trio.open_memory_channel[
            tuple[CheckRocksdbCqWriteProgress, Session]
        ](WAITING_MAX)

    async def run(self) -> None:
        """Run the checks whose result goes into the log, until cancelled."""
        async for header, session in self._to_run:
            self._places.give_back(session)
            result = await self._check(header, for_people=False)
            text = msgspec.json.encode(
                {"checkResult": result.check_result, "checkStatus": result.check_status}
            ).decode()
            LOGGER.info("checkRocksdbCqWriteProgress result: %s", text)

    async def asked(
        self, header: CheckRocksdbCqWriteProgress, frame: Frame, session: Session
    ) -> Frame:
        """Answer in the form that the client's version expects."""
        if header.wait_result:
            result = await self._check(header, for_people=True)
            return frame.reply(body=result.encode())
        if header.check_store_time is None:
            text = await self._old_text(header.topic)
            return frame.reply(body=CheckRocksdbCqWriteProgressBody(text).encode())
        try:
            if self._places.why_full(session, "checks wait"):
                raise trio.WouldBlock
            self._for_log.send_nowait((header, session))
            self._places.take(session)
        except trio.WouldBlock:
            busy = CheckRocksdbCqWriteResult("too many checks are waiting", CheckStatus.ERROR)
            return frame.reply(body=busy.encode())
        begun = CheckRocksdbCqWriteResult(check_status=CheckStatus.IN_PROGRESS)
        return frame.reply(body=begun.encode())

    async def _check(
        self, header: CheckRocksdbCqWriteProgress, *, for_people: bool
    ) -> CheckRocksdbCqWriteResult:
        """Compare the queues; ``for_people`` adds the missing messages by queue."""
        topic = header.topic
        try:
            report = await self._report(topic, header.check_store_time or 0)
        except OSError as error:
            LOGGER.error("RocksDB cannot be checked: %s", error)
            return CheckRocksdbCqWriteResult(disk_problem(error), CheckStatus.ERROR)
        if report is None:
            return self._no_check()
        if topic and not report.queues:
            return CheckRocksdbCqWriteResult(f"topic {topic} has no queue", CheckStatus.ERROR)
        for queue in report.queues:
            if queue.difference is not None:
                LOGGER.error("%s", _first_difference(queue))
        text = (
            "".join(queue.describe() for queue in report.queues)
            if topic
            else report.describe(self._topics_now())
        )
        if for_people and (missing := _missing(report)):
            text = "\n".join([text.removesuffix("\n"), *missing])
        return CheckRocksdbCqWriteResult(
            text,
            CheckStatus.OK if report.is_ready else CheckStatus.NOT_OK,
            safe_to_switch=report.is_safe_to_switch,
        )

    async def _old_text(self, topic: str) -> str:
        """Return the text of 5.3.1, which has no status."""
        try:
            report = await self._report(topic, 0)
        except OSError as error:
            return disk_problem(error)
        if report is None:
            return self._no_check().check_result or ""
        parts = []
        for queue in report.queues:
            if topic:
                parts.append(f"\n{queue.describe()}")
            if queue.difference is not None:
                parts.append(_first_difference(queue))
        if not topic:
            parts.append(f"check all topic successful, size:{self._topics_now()}")
        return "".join(parts)

    async def _report(self, topic: str, check_from_ms: int) -> DiffReport | None:
        async with self._one_at_a_time:
            return await self._store.check_rocksdb(topic, check_from_ms=check_from_ms)

    def _no_check(self) -> CheckRocksdbCqWriteResult:
        if self._store.config.stage is Stage.ROCKSDB:
            return CheckRocksdbCqWriteResult(ROCKSDB_ALONE, CheckStatus.OK)
        return CheckRocksdbCqWriteResult(FILES_ALONE, CheckStatus.NOT_OK)

    def _topics_now(self) -> int:
        return len({topic for topic, _ in self._store.queues()})


def register(handlers: Handlers, *, store: Store) -> QueueChecks:
    """Register both requests; the caller runs ``run`` of the result."""
    checks = QueueChecks(store=store)
    one_at_a_time = trio.Lock()

    async def export(header: ExportRocksdbConfigToJson, frame: Frame, session: Session) -> Frame:
        """Write the files, keeping older ones as ``.bak``; a broker with files writes nothing."""
        names = _config_types(header.config_type)
        async with one_at_a_time:
            try:
                await store.tables.export(names)
            except OSError as error:
                LOGGER.error("the tables cannot be exported: %s", error)
                remark = f"the tables cannot be exported: {disk_problem(error)}"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
        LOGGER.info("%s were exported to JSON for %s", ", ".join(names), session.peer)
        return frame.reply(remark="export done.")

    handlers.add(
        RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, typed(ExportRocksdbConfigToJson, export)
    )
    handlers.add(
        RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        typed(CheckRocksdbCqWriteProgress, checks.asked),
    )
    return checks


def _config_types(text: str) -> list[str]:
    """Parse the names in ``topics;consumerOffsets;``, in any case. Raises ``Refused``."""
    by_lower = {name.lower(): name for name in CONFIG_TYPES}
    names = []
    for part in listed("configType", text, ";"):
        if not part.strip():
            continue
        name = by_lower.get(part.strip().lower())
        if name is None:
            remark = f"Unknown config type: {part}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        names.append(name)
    return names


def _first_difference(queue: QueueDiff) -> str:
    found = queue.difference
    assert found is not None, "only of a queue that has one"
    return (
        f"[topic: {queue.topic}, queue: {queue.queue_id}, offset: {found.queue_offset}] \n"
        f" file : {found.files or 'null'}  \n  kv : {found.rows or 'null'} \n"
    )


def _missing(report: DiffReport) -> list[str]:
    """Return one line for each queue that RocksDB has only in part."""
    lines = []
    for queue in report.queues:
        if queue.first_missing is None:
            continue
        starts = f", kvStartsAt: {queue.kv_starts_at}" if queue.kv_starts_at is not None else ""
        lines.append(
            f"[topic: {queue.topic}, queue: {queue.queue_id}] "
            f"firstMissing: {queue.first_missing}{starts}"
        )
    more = len(lines) - SHOWN_QUEUES
    if more > 0:
        lines[SHOWN_QUEUES:] = [f"and {more} queues more"]
    return lines
