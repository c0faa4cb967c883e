"""Sessions: the results of a writer's latest writes, so that a retry gets the first one's result.

A writer numbers its writes and says with each the lowest number it still waits for; results below
that are forgotten, and all but the latest ``RESULTS_MAX``, or fewer: as many as have
``RESULTS_BYTES_MAX``, since a session is written as a whole with each write of its writer. A
session that is not used for ``GENERATION_MS`` of the log's time may be forgotten as well, and is
after twice that. Sessions are in one of two generations: one is in use, and what it has not is
moved over from the other, which is dropped as a whole when the next generation begins. A writer of
an account is another one than a writer without an account, or of another account, that has the same
id: it gets no result of theirs.
"""

from typing import Final, final

import msgspec

from lanemq.wire.kv import chosen_client

from ._sums import NOTHING, moved
from .engines._engine import Batch
from .engines._rows import SESSION, Meta, after_prefix, session_key

RESULTS_MAX: Final = 256
RESULTS_BYTES_MAX: Final = 64 << 10
"""Bytes of the results that are kept of a writer, but for the latest, which is kept always: it has
72 KiB at most."""
BATCH_BYTES: Final = 1 << 20
"""Bytes of sessions after which a batch is to be written."""
GENERATION_MS: Final = 3_600_000


@final
class Session(msgspec.Struct, array_like=True):
    """The results of one writer."""

    floor: int = 0
    """Writes up to this number are no longer known."""
    results: list[tuple[int, bytes]] = []
    """Sequence number and encoded ``WriteAnswer``, sorted."""

    def find(self, sequence: int) -> bytes | None:
        """Return the result of a write; None for one that was not applied, as far as known."""
        if not self.results or self.results[-1][0] < sequence:
            return None  # mostly: it is a new one
        for number, result in reversed(self.results):
            if number == sequence:
                return result
        return None

    @property
    def last(self) -> int:
        """The number of the latest write that may have been applied."""
        return max(self.floor, self.results[-1][0] if self.results else 0)

    def awaits(self, sequence: int) -> bool:
        """Return whether a write is new, and behind all that were applied."""
        kept = self.results
        return sequence > (kept[-1][0] if kept else self.floor)

    def add(self, sequence: int, result: bytes, *, waits: int, is_bounded: bool) -> None:
        """Keep a result; the writer does not ask for those below ``waits`` again.

        ``is_bounded``: whether there is a bound in bytes, too.
        """
        kept, floor = self.results, self.floor
        if kept and kept[-1][0] < waits <= sequence:  # mostly: a writer waits for one at a time
            self.results = [(sequence, result)]
            self.floor = waits - 1 if waits > floor else floor
            return
        if not kept or kept[-1][0] < sequence:  # mostly: writes come in their order
            gone = 0
            while gone < len(kept) and kept[gone][0] < waits:
                gone += 1
            del kept[:gone]
            kept.append((sequence, result))
        else:
            kept = [one for one in kept if one[0] >= waits]
            kept.append((sequence, result))
            kept.sort()
        known_from = waits if waits < sequence else sequence
        if known_from > floor:
            floor = known_from - 1
        if len(kept) > RESULTS_MAX:
            floor = max(floor, kept[-RESULTS_MAX - 1][0])
            kept = kept[-RESULTS_MAX:]
        if is_bounded and len(kept) > 1:
            gone = _too_many(kept)
            if gone:
                floor = max(floor, kept[gone - 1][0])
                kept = kept[gone:]
        self.floor, self.results = floor, kept


def _too_many(results: list[tuple[int, bytes]]) -> int:
    """Return how many of the first results are to be forgotten."""
    size_bytes = sum([len(result) for _, result in results])
    gone, last = 0, len(results) - 1
    while size_bytes > RESULTS_BYTES_MAX and gone < last:
        size_bytes -= len(results[gone][1])
        gone += 1
    return gone


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Session)


@final
class OpenSessions:
    """The sessions of one generation that a batch has used; encoded once, at its end."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._open: dict[str, tuple[bytes, bytes | None, Session]] = {}
        self._changed: set[str] = set()
        self._size_bytes = 0

    @property
    def is_enough(self) -> bool:
        """True once the batch is to be written: each session of it is encoded, and hashed twice."""
        return self._size_bytes > BATCH_BYTES

    def of(self, client: str, generation: int) -> Session:
        """Return a writer's session, which may be that of the generation before."""
        found = self._open.get(client)
        if found is None:
            key = session_key(generation, client)
            row = self._batch.get(key)
            kept = row
            if kept is None:
                kept = self._batch.get(session_key(generation + 1, client))
            session = decode_session(kept)
            before = chosen_client(client) if kept is None else None
            if before is not None:
                # What it wrote while there were no accounts is refused, rather than done twice.
                session.floor = self.of(before, generation).last
                self._changed.add(client)  # whatever that one does later
            found = self._open[client] = key, row, session
            self._size_bytes += 0 if kept is None else len(kept)
        return found[2]

    def changed(self, client: str) -> None:
        """Note that a writer's session is another one now."""
        self._changed.add(client)

    def put_changed(self, meta: Meta) -> None:
        """Put those that have changed among the rows, and move their sum."""
        changes = []
        for client, (key, row, session) in self._open.items():
            if client in self._changed:
                new = self._batch.rows[key] = encode_session(session)
                changes.append((key, row, new))
        self.clear()
        if changes:
            sums, now = list(meta.session_sums), meta.generation % 2
            sums[now] = moved(sums[now], changes)
            meta.session_sums = (sums[0], sums[1])

    def begin_generation(self, meta: Meta) -> None:
        """Begin the next generation; the one before the present one is dropped."""
        self.put_changed(meta)
        meta.generation += 1
        meta.generation_ms = meta.clock_ms
        prefix = SESSION + bytes((meta.generation % 2,))
        self._batch.drop(prefix, after_prefix(prefix))
        sums = list(meta.session_sums)
        sums[meta.generation % 2] = NOTHING
        meta.session_sums = (sums[0], sums[1])

    def clear(self) -> None:
        """Forget all of them, and what has changed."""
        self._open.clear()
        self._changed.clear()
        self._size_bytes = 0


def encode_session(session: Session) -> bytes:
    """Encode a row."""
    return _ENCODER.encode(session)


def decode_session(row: bytes | None) -> Session:
    """Decode a row; a new session where there is none."""
    return Session(results=[]) if row is None else _DECODER.decode(row)
