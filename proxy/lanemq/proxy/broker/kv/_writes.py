"""KV_WRITE: operations go through the one gate to the log, and are answered once they are applied.

All writes of one read are in one write to the log, and their answers in one send. A writer whose
record is stored but not applied in time is told to ask again: with its sequence number it gets
the result of what is stored, and nothing is done twice.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates, NewMessage, Put, Store
from lanemq.storage.kv import KvState, Outcome, operation_properties
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import (
    Beginning,
    OpType,
    encode_beginning,
    kv_topic,
    owned_client,
    parse_partition,
)

from ...logical.rules._gate import SegmentClosed
from ...net._session import Session
from ...sessions.keys._checks import DURING_IMPORT, SHRINKING, checked_write
from ...sessions.keys._remarks import IMPORTING, LOST
from ...sessions.keys._result import KvResult, result_of
from ..writing._writer import Writer
from ._claims import Claims
from ._log_clock import LogClock
from ._namespaces import Asked, NewNamespaces
from ._own_records import OwnRecords
from ._partitions import Partitions

LOGGER = get_logger("lanemq.proxy.kv", by_peers=True)
WAITING_BYTES: Final = 1024
ASK_AGAIN: Final = (
    "the write is stored, but could not be applied yet: ask again with the same sequence number"
)
MOVING: Final = "partition {} of {} is moving; try again in a moment"


class _Waiting(NamedTuple):
    """A writer that waits for its record to be applied."""

    position: int
    log_position: int
    session: Session
    frame: Frame
    size_bytes: int
    since_s: float


@final
@define(eq=False, kw_only=True, repr=False)
class KvWrites:
    """The writes of one broker."""

    _claims: Claims
    _commit: Callable[[], None]
    new: NewNamespaces
    """The namespaces that are being made; its ``run`` is a task."""
    _now_ms: Callable[[], int]
    _now_s: Callable[[], float]
    _on_unwritten: list[Callable[[Refused], None]]
    _partitions: Partitions
    _signer: Callable[[Frame, Session], str]
    """Returns the account that has signed a request; "" for none."""
    _states: KvStates
    _store: Store
    _store_host: bytes
    _writer: Writer
    _waiting: dict[str, deque[_Waiting]] = field(init=False, factory=dict)
    _begun: set[str] = field(init=False, factory=set)
    """Partitions whose first record is on its way into the log."""
    clock: LogClock = field(init=False)
    own: OwnRecords = field(init=False)
    """The records that the broker writes by itself; its ``run`` is a task."""

    def __attrs_post_init__(self) -> None:
        self.clock = LogClock(self._states, now_ms=self._now_ms, now_s=self._now_s)
        self.own = OwnRecords(
            append=self._append_own,
            claims=self._claims,
            clock=self.clock,
            commit=self._commit,
            config=self._store.config,
            now_ms=self._now_ms,
            now_s=self._now_s,
            partitions=self._partitions,
            states=self._states,
        )
        self.new.append, self.new.commit = self._append_waiting, self._commit_waiting
        self._states.on_applied.append(self._applied)
        self._states.on_behind.append(self._fell_behind)
        self._on_unwritten.append(self._unwritten)

    # Requests

    def write(self, header: KvWrite, frame: Frame, session: Session) -> None:
        """Append an operation; the answer follows once it is applied.

        Raises ``Refused``: INVALID_PARAMETER for what breaks a limit, KV_NAMESPACE_NOT_EXIST
        where the namespace is not here and must not be made here, KV_MOVED, SYSTEM_BUSY for now,
        KV_STATE_LOST, SERVICE_NOT_AVAILABLE while the log takes nothing.
        """
        checked = checked_write(header, frame.body)
        size_bytes = WAITING_BYTES + frame.kept_bytes
        if not session.account.admits(size_bytes):
            raise Refused(ResponseCode.SYSTEM_BUSY, "too much is waiting; try again in a moment")
        account, host = self._signer(frame, session), session.peer.host
        client, lessor = owned_client(header.client or "", account), checked.lessor(account, host)
        asked = Asked(header, checked.key, frame, session, size_bytes, client, lessor)
        name = asked.name
        self._partitions.check_deleted(name, header)
        is_here = name in self._states.states
        if not is_here:
            self._partitions.check_new(header)
        if is_here and not self.new.is_waiting(name):
            self._append(asked)
        else:
            self.new.wait(asked)

    def _append_waiting(self, asked: Asked) -> None:
        """Append a write that has waited for its namespace."""
        try:
            self._append(asked)
        except Exception as error:  # costs one write, whose writer is told
            if not asked.frame.is_oneway:
                asked.session.answer(asked.frame, error)

    def _commit_waiting(self) -> None:
        try:
            self._commit()
        except Refused as error:  # those who wait have heard of it
            LOGGER.warning("the first writes of a namespace are not taken: %s", error.remark)

    def _append(self, asked: Asked) -> None:
        header, key, frame, session, size_bytes, client, lessor = asked
        name = asked.name
        state = self._partitions.open(header.namespace, header.partition, header.partitions)
        if state.meta.importing and header.op_type not in DURING_IMPORT:
            raise Refused(ResponseCode.SYSTEM_BUSY, IMPORTING.format(header.namespace))
        if state.meta.lost and header.op_type not in (OpType.CLEAR, OpType.IMPORT, OpType.DROP):
            raise Refused(ResponseCode.KV_STATE_LOST, LOST.format(header.namespace))
        op_type = OpType.TICK if header.op_type == OpType.CREATE else header.op_type
        grows = op_type not in SHRINKING
        reason = self._states.why_refused(name, grows=grows)
        if reason:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"no writes are taken now: {reason}")
        properties = operation_properties(
            op_type,
            key=key,
            identity=self._claims.identity_in(name, state, op_type),
            client=client,
            sequence=header.sequence or 0,
            waits=header.waits or 0,
            time_ms=self.clock.time_ms(name),
            lessor=lessor,
            bounds=not state.meta.is_bounded,
        )
        host = session.peer.packed
        put = self._put(header, name, state, frame.body, properties, host)
        if frame.is_oneway:
            return
        session.account.add(size_bytes)
        waiting = self._waiting.get(name)
        if waiting is None:
            waiting = self._waiting[name] = deque()
        position, now_s = put.queue_offset + state.meta.shift, self._now_s()
        waiting.append(_Waiting(position, put.log_position, session, frame, size_bytes, now_s))

    def _put(
        self,
        header: KvWrite,
        name: str,
        state: KvState,
        body: bytes,
        properties: bytes,
        host: bytes,
    ) -> Put:
        """Append a record to the log of a partition. Raises ``Refused``."""
        meta, namespace = state.meta, header.namespace
        is_first = meta.partitions > 1 and not meta.next
        try:
            if (is_first or not meta.partitions) and name not in self._begun:
                # A log that says nothing of partitions is that of the only one. A lost state that
                # does not know how many there are learns it from the one who clears it.
                self._begin(namespace, name, state, header.partitions, host)
            return self._writer.append(self._message(namespace, state, body, properties, host))
        except SegmentClosed as error:
            remark = MOVING.format(meta.partition, namespace)
            raise Refused(ResponseCode.SYSTEM_BUSY, remark) from error

    def _begin(
        self,
        namespace: str,
        name: str,
        state: KvState,
        partitions: int,
        host: bytes,
    ) -> None:
        """Append the record that says whose the log is. Raises as ``Writer.append``."""
        _, partition = parse_partition(name)
        body = encode_beginning(Beginning(partition, partitions, position=state.meta.next))
        identity = "" if state.meta.next else self._claims.identity_of(name)
        named = operation_properties(
            OpType.BEGIN, identity=identity, time_ms=self.clock.time_ms(name)
        )
        self._writer.append(self._message(namespace, state, body, named, host))
        self._begun.add(name)

    def _message(
        self, namespace: str, state: KvState, body: bytes, properties: bytes, born_host: bytes
    ) -> NewMessage:
        return NewMessage(
            topic=kv_topic(namespace),
            queue_id=state.meta.queue_id,
            body=body,
            properties=properties,
            born_timestamp_ms=self._now_ms(),
            born_host=born_host,
            store_host=self._store_host,
            was_taken=True,  # operations have limits of their own
        )

    def _append_own(self, namespace: str, state: KvState, body: bytes, properties: bytes) -> int:
        message = self._message(namespace, state, body, properties, self._store_host)
        return self._writer.append(message).queue_offset + state.meta.shift

    # What becomes of them

    def _applied(self, name: str, outcomes: list[tuple[int, Outcome]]) -> None:
        self._begun.discard(name)
        self.own.applied(name)
        if self._claims.is_creating(name):
            self._claims.created(name)
        waiting = self._waiting.get(name)
        if not waiting:
            return
        answers: dict[Session, list[tuple[Frame, KvResult | Refused]]] = {}
        for position, outcome in outcomes:
            while waiting and waiting[0].position < position:
                self._refuse(waiting.popleft(), ResponseCode.SYSTEM_BUSY, ASK_AGAIN)
            if waiting and waiting[0].position == position:
                asked = waiting.popleft()
                asked.session.account.add(-asked.size_bytes)
                answer = asked.frame, result_of(name, outcome)
                answers.setdefault(asked.session, []).append(answer)
        for session, results in answers.items():
            session.answer_all(results)

    def _fell_behind(self, name: str) -> None:
        for asked in self._waiting.pop(name, ()):
            self._refuse(asked, ResponseCode.SYSTEM_BUSY, ASK_AGAIN)

    def _unwritten(self, error: Refused) -> None:
        """Refuse writes of a batch that could not be written to the log; nothing is stored."""
        self._begun.clear()
        self.own.unwritten()
        end = self._store.max_position
        for waiting in self._waiting.values():
            while waiting and waiting[-1].log_position >= end:
                self._refuse(waiting.pop(), error.code, error.remark)

    def expire(self, now_s: float) -> None:
        """Answer those whose records do not become durable in time."""
        timeout_s = self._store.config.sync_flush_timeout_s
        for waiting in self._waiting.values():
            while waiting and now_s - waiting[0].since_s > timeout_s:
                self._refuse(waiting.popleft(), ResponseCode.SYSTEM_BUSY, ASK_AGAIN)

    def _refuse(self, asked: _Waiting, code: int, remark: str) -> None:
        asked.session.account.add(-asked.size_bytes)
        asked.session.answer(asked.frame, Refused(code, remark))
