"""KV_WRITE: operations go through the one gate to the log, and are answered once they are applied.

All writes of one read are in one write to the log, and their answers in one send. A writer whose
record is stored but not applied in time is told to ask again: with its sequence number it gets
the result of what is stored, and nothing is done twice.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from lanemq.storage import KvStates, NewMessage, Store
from lanemq.storage.kv import Outcome, Status, operation_properties
from lanemq.wire import Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.frame import Frame, encode_frame
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import (
    ONE_STEP,
    OpType,
    client_problem,
    decode_load,
    decode_steps,
    encode_answer,
    kv_topic,
    namespace_problem,
)

from ...net._dispatch import failure
from ...net._reply_template import ReplyTemplate
from ...net._session import Session
from ..handlers._writer import Writer
from ._namespaces import Asked, NewNamespaces

LOGGER = logging.getLogger("lanemq.proxy.kv")
WAITING_BYTES: Final = 1024
CLIENT_OPERATIONS: Final = frozenset(
    {*ONE_STEP, OpType.BATCH, OpType.CLEAR, OpType.CREATE, OpType.LOAD}
)
ASK_AGAIN: Final = (
    "the write is stored, but could not be applied yet: ask again with the same sequence number"
)
LOST: Final = (
    "the keys of namespace {} are lost: bring back the directory kv of the store from a copy, or "
    "import a snapshot with `lanemq kv import FILE --replace`"
)


class _Waiting(NamedTuple):
    """A writer that waits for its record to be applied."""

    position: int
    log_position: int
    session: Session
    frame: Frame
    size_bytes: int
    since_s: float


@final
class KvWrites:
    """The writes of one broker."""

    def __init__(
        self,
        *,
        commit: Callable[[], None],
        new: NewNamespaces,
        now_ms: Callable[[], int],
        now_s: Callable[[], float],
        on_unwritten: list[Callable[[Refused], None]],
        states: KvStates,
        store: Store,
        store_host: bytes,
        writer: Writer,
    ) -> None:
        self._commit = commit
        self._now_ms = now_ms
        self._now_s = now_s
        self._store = store
        self._store_host = store_host
        self._writer = writer
        self._states = states
        self._waiting: dict[str, deque[_Waiting]] = {}
        self.new = new
        """The namespaces that are being made; its ``run`` is a task."""
        self._done = ReplyTemplate().encode
        new.ready = self._append_all
        states.on_applied.append(self._applied)
        states.on_behind.append(self._fell_behind)
        on_unwritten.append(self._unwritten)

    # Requests

    def write(self, header: KvWrite, frame: Frame, session: Session) -> None:
        """Append an operation; the answer follows once it is applied.

        Raises ``Refused``: INVALID_PARAMETER for what breaks a limit, KV_NAMESPACE_NOT_EXIST
        where the namespace is not here and must not be made here, SYSTEM_BUSY for now,
        KV_STATE_LOST, SERVICE_NOT_AVAILABLE while the log takes nothing.
        """
        key = _check(header, frame.body)
        namespace = header.namespace
        size_bytes = WAITING_BYTES + len(frame.body)
        if not session.account.admits(size_bytes):
            raise Refused(ResponseCode.SYSTEM_BUSY, "too much is waiting; try again in a moment")
        asked = Asked(header, key, frame, session, size_bytes)
        if namespace in self._states.states and not self.new.is_waiting(namespace):
            self._append(asked)
        else:
            self.new.wait(asked)

    def _append_all(self, asked: list[Asked]) -> None:
        """Append the writes that have waited for their namespace."""
        for one in asked:
            try:
                self._append(one)
            except Exception as error:  # costs one write, whose writer is told
                if not one.frame.is_oneway:
                    one.session.send(failure(one.frame, one.session, error))
        try:
            self._commit()
        except Refused as error:  # those who wait have heard of it
            LOGGER.warning("the first writes of a namespace are not taken: %s", error.remark)

    def _append(self, asked: Asked) -> None:
        header, key, frame, session, size_bytes = asked
        namespace = header.namespace
        if self._states.states[namespace].meta.lost and header.op_type != OpType.CLEAR:
            raise Refused(ResponseCode.KV_STATE_LOST, LOST.format(namespace))
        op_type = OpType.TICK if header.op_type == OpType.CREATE else header.op_type
        grows = op_type not in (OpType.DELETE, OpType.CLEAR)
        reason = self._states.why_refused(namespace, grows=grows)
        if reason:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"no writes are taken now: {reason}")
        properties = operation_properties(
            op_type,
            key=key,
            client=header.client or "",
            sequence=header.sequence or 0,
            waits=header.waits or 0,
        )
        host = session.peer.packed
        put = self._writer.append(self.message(namespace, frame.body, properties, born_host=host))
        if frame.is_oneway:
            return
        session.account.add(size_bytes)
        waiting = self._waiting.get(namespace)
        if waiting is None:
            waiting = self._waiting[namespace] = deque()
        now_s = self._now_s()
        waiting.append(
            _Waiting(put.queue_offset, put.log_position, session, frame, size_bytes, now_s)
        )

    def message(
        self, namespace: str, body: bytes, properties: bytes, *, born_host: bytes
    ) -> NewMessage:
        """Make the record of an operation."""
        return NewMessage(
            topic=kv_topic(namespace),
            queue_id=0,
            body=body,
            properties=properties,
            born_timestamp_ms=self._now_ms(),
            born_host=born_host,
            store_host=self._store_host,
            was_taken=True,  # operations have limits of their own
        )

    # What becomes of them

    def _applied(self, namespace: str, outcomes: list[tuple[int, Outcome]]) -> None:
        waiting = self._waiting.get(namespace)
        if not waiting:
            return
        answers: dict[Session, list[bytes]] = {}
        for position, outcome in outcomes:
            while waiting and waiting[0].position < position:
                self._refuse(waiting.popleft(), ResponseCode.SYSTEM_BUSY, ASK_AGAIN)
            if waiting and waiting[0].position == position:
                asked = waiting.popleft()
                asked.session.account.add(-asked.size_bytes)
                data = self._answer(namespace, asked.frame, outcome)
                answers.setdefault(asked.session, []).append(data)
        for session, pieces in answers.items():
            session.send_bytes(b"".join(pieces))

    def _answer(self, namespace: str, frame: Frame, outcome: Outcome) -> bytes:
        if outcome.status in (Status.APPLIED, Status.REPEATED):
            return self._done(frame, (), encode_answer(outcome.answer))
        code, remark = ResponseCode.SYSTEM_ERROR, "the record was no operation: nothing was done"
        if outcome.status is Status.FORGOTTEN:
            code = ResponseCode.KV_WRITE_FORGOTTEN
            remark = (
                "the write is so old that its result is not known any more: read the key to see "
                "whether it was done"
            )
        elif outcome.status is Status.LOST:
            code, remark = ResponseCode.KV_STATE_LOST, LOST.format(namespace)
        return encode_refusal(frame, code, remark)

    def _fell_behind(self, namespace: str) -> None:
        for asked in self._waiting.pop(namespace, ()):
            self._refuse(asked, ResponseCode.SYSTEM_BUSY, ASK_AGAIN)

    def _unwritten(self, error: Refused) -> None:
        """Refuse writes of a batch that could not be written to the log; nothing is stored."""
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
        asked.session.send_bytes(encode_refusal(asked.frame, code, remark))

    # Time

    def tick(self, now_ms: int) -> None:
        """Let the log know the time where an entry's time has come."""
        due = [
            name
            for name, state in self._states.states.items()
            if 0 < state.meta.next_expiry_ms <= now_ms and not self._states.why_refused(name)
        ]
        for name in due:
            properties = operation_properties(OpType.TICK)
            host = self._store_host
            self._writer.append(self.message(name, b"", properties, born_host=host))
        if due:
            self._commit()


def _check(header: KvWrite, body: bytes) -> bytes | None:
    """Check a write; returns its key if it is about one. Raises ``Refused``."""
    problem = namespace_problem(header.namespace)
    if problem is None and header.op_type not in CLIENT_OPERATIONS:
        problem = f"there is no operation {header.op_type!r}"
    if problem is None and header.client is not None:
        problem = client_problem(header.client)
        numbers = header.sequence, header.waits
        if problem is None and not all(number is not None and number > 0 for number in numbers):
            problem = "a write with a client needs its numbers sequence and waits, from 1"
    if problem is not None:
        raise Refused(ResponseCode.INVALID_PARAMETER, problem)
    try:
        if header.op_type == OpType.LOAD:
            decode_load(body)
            return None
        steps = decode_steps(header.op_type, body)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
    return steps[0].key if header.op_type in ONE_STEP else None


def encode_refusal(frame: Frame, code: int, remark: str) -> bytes:
    """Encode the answer to a request that is refused."""
    return encode_frame(frame.reply(code, remark=remark))
