"""Consumers' positions as entries: the offset of a group in each queue, and its stage.

========================================  =================================================
key                                       value
========================================  =================================================
``offsets/NAME/TOPIC/BROKER/QUEUE``       the next offset to read, in decimal
``stages/NAME/TOPIC/BROKER/QUEUE``        a stage record, as its number in decimal
``stages/NAME/TOPIC/BROKER/QUEUE/S``      that of strategy S
``holders/NAME/LEASE/NUMBER``             empty, under a lease; one in each partition
========================================  =================================================
"""

from typing import Final, Protocol, final

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.kv import Action, OpType, Step, client_problem, encode_steps, partition_of
from lanemq.wire.message import StageRecord

from .._errors import LanemqError
from ._leases import held_by
from ._store import KeyValueStore
from .requests._errors import KvRejected

OFFSETS: Final = "offsets"
STAGES: Final = "stages"
HOLDERS: Final = "holders"


class FaceOfStore(Protocol):
    """A store of another face, which forwards to one of the core."""

    _core: KeyValueStore


@final
class KvOffsetStore:
    """Keeps the positions of a group as entries, for ``PushOptions.offset_store`` and
    ``LitePullOptions.offset_store``, and for the ``store`` of a staged listener.

    ``name`` is the group's, or any other that no other group has: letters, digits, ``-``, ``_``.
    Only the position that was loaded or saved last is replaced. Where another consumer has saved
    one meanwhile, the one that is further on stays: a consumer that has lost its queue, and does
    not know it yet, moves nobody back.

    With ``lease``, the number of a lease that the store holds, a position is saved only while that
    lasts: afterwards saving raises ``NoLease``, and changes nothing.

    ``store`` has to be open for as long as the consumer is. The same class is for all faces.
    """

    def __init__(
        self, store: KeyValueStore | FaceOfStore, name: str, *, lease: int | None = None
    ) -> None:
        problem = client_problem(name)
        if problem is not None:
            raise KvRejected(problem.replace("client id", "name of an offset store"))
        core = store if isinstance(store, KeyValueStore) else store._core
        self._calls = core._calls
        self._lease = None if lease is None else held_by(core._leases, lease)
        self._marks: dict[int, bytes] = {}
        """Partition -> the key there that is under the lease."""
        self._name = name
        self._versions: dict[bytes, int] = {}
        self._unsure: dict[bytes, set[int]] = {}
        """Key -> the numbers of which one may have been saved, though the answer was lost."""

    async def load_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that was saved last, None before the first. Raises ``LanemqError``."""
        return await self._load(self._key(OFFSETS, queue))

    async def peek_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that was saved last, None before the first. Raises ``LanemqError``.

        Unlike ``load_offset`` this leaves unchanged what the next ``save_offset`` may replace.
        """
        key = self._key(OFFSETS, queue)
        entry = await self._calls.sure_entry(key)
        return None if entry is None else _number(key, entry.value)

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        """Keep an offset; it lasts on return. Raises ``LanemqError``."""
        await self._save(self._key(OFFSETS, queue), offset)

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        """Return the record that was saved last, None before the first. Raises ``LanemqError``."""
        number = await self._load(self._key(STAGES, queue, strategy))
        return None if number is None else StageRecord.unpack(number)

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        """Keep a record; it lasts on return. Raises ``LanemqError``."""
        try:
            number = record.pack()
        except OverflowError as error:
            raise KvRejected(f"{queue}: {error}; it cannot be consumed in stages") from error
        await self._save(self._key(STAGES, queue, strategy), number)

    def _key(self, kind: str, queue: MessageQueue, strategy: str = "") -> bytes:
        parts = [kind, self._name, queue.topic, queue.broker_name, str(queue.queue_id)]
        return "/".join([*parts, *filter(None, (strategy,))]).encode()

    async def _load(self, key: bytes) -> int | None:
        entry = await self._calls.sure_entry(key)
        version = entry.version if entry is not None else 0
        if version != self._versions.get(key):  # over the same one, a save may still be under way
            self._unsure.pop(key, None)
        self._versions[key] = version
        return None if entry is None else _number(key, entry.value)

    async def _save(self, key: bytes, number: int) -> None:
        if key not in self._versions:
            await self._load(key)
        while True:
            steps = [Step(key, Action.PUT, b"%d" % number, if_version=self._versions[key])]
            if self._lease is not None:
                mark = await self._mark(key)
                steps.append(Step(mark, Action.PUT, ttl_ms=-self._lease.id))
            op_type = OpType.CAS if len(steps) == 1 else OpType.BATCH
            try:
                answer = await self._calls.write(key, op_type, encode_steps(steps))
            except BaseException:  # a cancellation among them
                self._unsure.setdefault(key, set()).add(number)
                raise
            if answer.done:
                self._versions[key] = answer.results[0].version
                self._unsure.pop(key, None)
                return
            known, own = self._versions[key], self._unsure.get(key, ())
            there = await self._load(key)
            if there in own:
                continue
            if there is not None and _queue_offset(there) >= _queue_offset(number):
                # Another consumer has the queue by now, and is further: it is not to be replaced.
                self._versions[key] = known
                return

    async def _mark(self, key: bytes) -> bytes:
        """Return the key that is put under the lease with what is saved under ``key``."""
        assert self._lease is not None
        partitions = await self._calls.sure_partitions()
        partition = partition_of(key, partitions)
        number = 0
        while partition not in self._marks:
            mark = f"{HOLDERS}/{self._name}/{self._lease.id}/{number}".encode()
            self._marks.setdefault(partition_of(mark, partitions), mark)
            number += 1
        return self._marks[partition]


def _number(key: bytes, value: bytes) -> int:
    if not value.isdigit() or len(value) > 19:
        raise LanemqError(f"the entry {key!r} is not a position: {value[:40]!r}")
    return int(value)


def _queue_offset(number: int) -> int:
    record = StageRecord.unpack(number)
    return number if record is None else record.queue_offset
