"""Reads of keys, watches, and the registration of all requests for keys and values."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import msgspec
import trio

from lanemq.storage import KvStates
from lanemq.storage.kv import Frozen, KvState, SnapshotGone, read_changes, read_entry, read_page
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvGet, KvMultiGet, KvScan, KvStatus, KvWatch, KvWrite
from lanemq.wire.kv import (
    STEPS_MAX,
    VALUE_BYTES_MAX,
    Changes,
    Entry,
    NamespaceStatus,
    check_key,
    decode_key,
    encode_answer,
)

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from .._config import BrokerConfig
from .._context import BrokerContext
from ._namespaces import NewNamespaces, no_namespace
from ._snapshots import NEW, Snapshots
from ._writes import LOST, KvWrites

LOGGER = logging.getLogger("lanemq.proxy.kv")
TICK_S: Final = 0.25
WATCHES_MAX: Final = 1024
WATCH_WAIT_MS_MAX: Final = 60_000
CONSISTENCIES: Final = frozenset({"linearizable", "local"})
_KEYS: Final = msgspec.msgpack.Decoder(list[bytes])


@final
class KvRequests:
    """Answers requests for keys and values; ``run`` is its task.

    A broker that holds the log of a namespace applies a record before it answers its writer. So
    what it has applied is all that anybody can know of, and a read of it is linearizable.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        now_s: Callable[[], float],
        states: KvStates,
        writes: KvWrites,
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._now_s = now_s
        self._states = states
        self.writes = writes
        self._news: dict[str, trio.Event] = {}
        self._watches = 0
        self._snapshots = Snapshots()
        states.on_applied.append(lambda namespace, _: self._wake(namespace))

    async def run(self) -> None:
        """Let entries expire, and answer writers whose time is up, until cancelled."""
        try:
            while True:
                await trio.sleep(TICK_S)
                if not self._states.states:
                    continue
                self.writes.expire(self._now_s())
                self._snapshots.expire(self._now_s())
                try:
                    self.writes.tick(self._now_ms())
                except Refused as error:
                    LOGGER.warning("entries do not expire now: %s", error.remark)
        finally:
            self._snapshots.clear()

    # Reads

    def get(self, header: KvGet, frame: Frame, session: Session) -> Frame:
        """Answer an entry, or nil where there is none."""
        _check_consistency(header.consistency)
        key = _decoded(header.key, "key")
        _checked(key)
        return frame.reply(body=encode_answer(read_entry(self._state(header.namespace), key)))

    def multi_get(self, header: KvMultiGet, frame: Frame, session: Session) -> Frame:
        """Answer the entries of the first so many keys, until 4 MiB of values are together."""
        _check_consistency(header.consistency)
        try:
            keys = _KEYS.decode(frame.body)
        except msgspec.MsgspecError as error:
            remark = f"the keys cannot be read: {error}"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark) from error
        if len(keys) > STEPS_MAX:
            remark = f"{len(keys)} keys are asked for, at most {STEPS_MAX} are taken"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        state = self._state(header.namespace)
        found: list[Entry | None] = []
        size_bytes = 0
        for key in keys:
            _checked(key)
            entry = read_entry(state, key)
            found.append(entry)
            size_bytes += len(entry.value) if entry is not None else 0
            if size_bytes > VALUE_BYTES_MAX:
                break
        return frame.reply(body=encode_answer(found))

    def scan(self, header: KvScan, frame: Frame, session: Session) -> Frame:
        """Answer a page of entries under a prefix."""
        now_s = self._now_s()
        state: KvState | Frozen = self._state(header.namespace)
        name = header.snapshot
        if name == NEW:
            self._snapshots.expire(now_s)
            self._snapshots.check_room()
            state = self._states.states[header.namespace].freeze()
            name = self._snapshots.add(header.namespace, state, now_s)
        elif name is not None:
            state = self._snapshots.get(name, header.namespace, now_s)
        try:
            page = read_page(
                state,
                _decoded(header.prefix, "prefix"),
                cursor=None if header.cursor is None else _decoded(header.cursor, "cursor"),
                limit=header.limit,
                keys_only=header.keys_only,
            )
        except SnapshotGone as error:
            raise Refused(ResponseCode.KV_COMPACTED, f"{error}: begin anew") from error
        if name is not None:
            if page.cursor is None:
                self._snapshots.remove(name)
            else:
                page = msgspec.structs.replace(page, snapshot=name)
        return frame.reply(body=encode_answer(page))

    def status(self, header: KvStatus, frame: Frame, session: Session) -> Frame:
        """Answer the status of one namespace or of all."""
        states = self._states.states
        if header.namespace is not None and header.namespace not in states:
            raise self._unknown(header.namespace)
        names = sorted(states) if header.namespace is None else [header.namespace]
        return frame.reply(body=encode_answer([self._status(name) for name in names]))

    def _status(self, name: str) -> NamespaceStatus:
        state = self._states.states[name]
        meta = state.meta
        return NamespaceStatus(
            name,
            meta.entries,
            meta.entry_bytes,
            meta.next,
            meta.clock_ms,
            state.hash,
            meta.changes_from,
            meta.lost,
            self._states.engine_name,
        )

    def _state(self, namespace: str) -> KvState:
        state = self._states.states.get(namespace)
        if state is None:
            raise self._unknown(namespace)
        if state.meta.lost:
            raise Refused(ResponseCode.KV_STATE_LOST, LOST.format(namespace))
        return state

    def _unknown(self, namespace: str) -> Refused:
        remark = no_namespace(namespace, self._config.broker_name)
        return Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)

    # Watches

    def watch(self, header: KvWatch, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """Answer changes, at once where there are any, else as soon as there are."""
        prefix = _decoded(header.prefix, "prefix")
        changes = self._changes(header, prefix)
        if changes.changes or header.wait_millis <= 0:
            return frame.reply(body=encode_answer(changes))
        if self._watches >= WATCHES_MAX:
            remark = f"{WATCHES_MAX} watches are waiting already; try again in a moment"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        return self._wait_for_changes(header, prefix, frame)

    async def _wait_for_changes(self, header: KvWatch, prefix: bytes, frame: Frame) -> Frame:
        wait_s = min(header.wait_millis, WATCH_WAIT_MS_MAX) / 1000
        self._watches += 1
        try:
            with trio.move_on_after(wait_s):
                while True:
                    news = self._news.setdefault(header.namespace, trio.Event())
                    changes = self._changes(header, prefix)
                    if changes.changes:
                        break
                    header = msgspec.structs.replace(
                        header, position=changes.next_position, index=changes.next_index
                    )
                    if changes.next_position < self._states.states[header.namespace].meta.next:
                        await trio.lowlevel.checkpoint()  # one read looks at so many only
                    else:
                        await news.wait()
            changes = self._changes(header, prefix)
        finally:
            self._watches -= 1
        return frame.reply(body=encode_answer(changes))

    def _changes(self, header: KvWatch, prefix: bytes) -> Changes:
        state = self._state(header.namespace)
        if header.position > state.meta.next:
            remark = (
                f"namespace {header.namespace} has {state.meta.next} records, there is nothing "
                f"from {header.position} on to wait for: begin anew with a scan"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        changes = read_changes(
            state,
            self._states.logs[header.namespace],
            prefix,
            position=header.position,
            index=header.index,
            limit=header.limit,
        )
        if changes is None:
            remark = (
                f"changes of namespace {header.namespace} from {header.position} on are not known "
                "any more: scan, then watch from the position of the first page"
            )
            raise Refused(ResponseCode.KV_COMPACTED, remark)
        return changes

    def _wake(self, namespace: str) -> None:
        news = self._news.pop(namespace, None)
        if news is not None:
            news.set()


def _check_consistency(name: str) -> None:
    if name not in CONSISTENCIES:
        remark = f"there is no consistency {name!r}; there are linearizable and local"
        raise Refused(ResponseCode.INVALID_PARAMETER, remark)


def _checked(key: bytes) -> None:
    try:
        check_key(key)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _decoded(text: str, what: str) -> bytes:
    try:
        return decode_key(text, what)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error


def register(
    handlers: Handlers, broker: BrokerContext, *, is_alone: Callable[[], bool]
) -> KvRequests | None:
    """Register the requests for keys and values; None, without any, where they are switched off.

    ``is_alone`` says whether the broker has never had another one beside it.
    """
    states = broker.store.kv
    if states is None:
        return None
    new = NewNamespaces(
        config=broker.config, is_alone=is_alone, states=states, topics=broker.topics
    )
    writes = KvWrites(
        commit=broker.commit,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        on_unwritten=broker.on_unwritten,
        store=broker.store,
        store_host=broker.store_host,
        writer=broker.writer,
        new=new,
        states=states,
    )
    requests = KvRequests(
        config=broker.config,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        states=states,
        writes=writes,
    )
    handlers.add(RequestCode.KV_WRITE, typed(KvWrite, requests.writes.write))
    handlers.add(RequestCode.KV_GET, typed(KvGet, requests.get))
    handlers.add(RequestCode.KV_MULTI_GET, typed(KvMultiGet, requests.multi_get))
    handlers.add(RequestCode.KV_SCAN, typed(KvScan, requests.scan))
    handlers.add(RequestCode.KV_WATCH, typed(KvWatch, requests.watch))
    handlers.add(RequestCode.KV_STATUS, typed(KvStatus, requests.status))
    return requests
