"""The key index against the log: every key has its entry, and every chain leads on."""

import sys
from array import array
from collections.abc import Iterator
from operator import mul
from typing import Final, final

from lanemq.wire import Property, SysFlag, get_property, java_hash

from .._index import keys_of
from .._index_file import SLOT_BYTES, key_hash
from .._records import Record
from ._index_files import IndexFileView
from ._tally import KeysCheck, Tally

NEVER: Final = 1 << 63
MASK: Final = 0xFFFFFFFF
SIGN: Final = 0x80000000
TAIL: Final = 12
"""Of a unique key: its milliseconds and counter. What is before is the producer's, and stays."""
SHIFTS: Final = [pow(31, size, 1 << 32) for size in range(TAIL + 1)]
POWERS: Final = [
    tuple(pow(31, size - 1 - n, 1 << 32) for n in range(size)) for size in range(TAIL + 1)
]
HEADS_MAX: Final = 1 << 16
UNIQ_KEY: Final = Property.UNIQ_KEY.encode()
KEYS: Final = Property.KEYS.encode()


@final
class KeyIndexCheck:
    """Entries come in the order of the log, and so do the records given here."""

    def __init__(self, files: list[IndexFileView], begin: int) -> None:
        """``begin``: the log position that the first record comes behind, or at."""
        self.check = KeysCheck()
        used = [file for file in files if file.next_entry > 1]
        self._first = used[0].header.begin_position if used else NEVER
        self._newest = used[-1].header.end_position if used else -1
        self._groups = _groups(used, begin)
        self._position, self._hashes = next(self._groups)
        self._heads: dict[tuple[str, bytes, int], int] = {}

    def add(self, record: Record) -> None:
        """Every key of the record has to be found."""
        position = record.position
        while self._position < position:
            self.check.stray.add(-1, self._position, count=len(self._hashes))
            self._position, self._hashes = next(self._groups)
        if record.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK:
            return
        hashes = self._key_hashes(record.topic, record.properties)
        if self._position == position and self._hashes == hashes:
            self.check.same += len(hashes)
            self._position, self._hashes = next(self._groups)
        elif hashes:
            self._compare(position, keys_of(record.properties), hashes)

    def _key_hashes(self, topic: str, properties: bytes) -> list[int]:
        """The hashes of ``keys_of``, a good deal faster for keys that begin alike."""
        unique = get_property(properties, UNIQ_KEY)
        keys = get_property(properties, KEYS)
        found = [] if unique is None else [self._hash(topic, unique)]
        if keys is not None:
            if b" " not in keys:
                found.append(self._hash(topic, keys))
            else:
                found += [self._hash(topic, key) for key in keys.split(b" ") if key]
        return found

    def _hash(self, topic: str, key: bytes) -> int:
        if not key.isascii():
            return key_hash(topic, key.decode("utf-8", "replace"))
        tail = key[-TAIL:]
        size = len(tail)
        name = topic, key[:-TAIL], size
        head = self._heads.get(name)
        if head is None:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            head = java_hash(f"{topic}#{name[1].decode()}") * SHIFTS[size]
            self._heads[name] = head
        value = (head + sum(map(mul, tail, POWERS[size]))) & MASK
        # The magnitude of the signed number, but 0 for the one that has none.
        return value if value < SIGN else (0 if value == SIGN else (1 << 32) - value)

    def _compare(self, position: int, keys: list[str], hashes: list[int]) -> None:
        check, found = self.check, list[int]()
        if self._position == position:
            found = self._hashes
            self._position, self._hashes = next(self._groups)
        for key, hash_ in zip(keys, hashes, strict=True):
            if hash_ in found:
                check.same += 1
            elif position < self._first:
                check.before.add(-1, position, key)
            elif position > self._newest:
                check.behind.add(-1, position, key)
            else:
                check.missing.add(-1, position, key)
        # A redo indexes the same record twice: only what is no key of it is astray.
        astray = [hash_ for hash_ in found if hash_ not in hashes]
        if astray:
            check.stray.add(-1, position, count=len(astray))

    def close(self, end: int) -> KeysCheck:
        """Returns what was found up to ``end`` of the log."""
        while self._position < end:
            self.check.stray.add(-1, self._position, count=len(self._hashes))
            self._position, self._hashes = next(self._groups)
        return self.check


def _groups(files: list[IndexFileView], begin: int) -> Iterator[tuple[int, list[int]]]:
    """Position and hashes of each indexed record from ``begin`` on; then for ever none."""
    position, hashes = -1, list[int]()
    for file in files:
        if file.header.end_position < begin:
            continue
        for hash_, found, _, _ in file.entries(_first_entry(file, begin)):
            if found == position:
                hashes.append(hash_)
                continue
            if position >= begin:
                yield position, hashes
            position, hashes = found, [hash_]
    if position >= begin:
        yield position, hashes
    while True:
        yield NEVER, []


def _first_entry(file: IndexFileView, begin: int) -> int:
    low, high = 1, file.next_entry
    while low < high:
        middle = (low + high) // 2
        entry = next(file.entries(middle), None)
        if entry is None or entry[1] >= begin:
            high = middle
        else:
            low = middle + 1
    return low


def check_chains(file: IndexFileView) -> Tally:
    """Follow how a file was filled: each entry names the one before it in its slot.

    Returns the entries and slots that do not; the position is that of the message.
    """
    broken = Tally()
    slots = file.sizes.slots
    newest = array("i", bytes(slots * SLOT_BYTES))
    number = 0
    for number, (hash_, position, _, previous) in enumerate(file.entries(), 1):
        slot = hash_ % slots
        if previous != newest[slot]:
            broken.add(number, position, f"entry {number} of {file.path.name}")
        newest[slot] = number
    table = array("i", file.slots())
    if sys.byteorder == "little":
        table.byteswap()
    if table != newest:
        for slot, (found, wanted) in enumerate(zip(table, newest, strict=False)):
            # A slot that leads nowhere there is counts as empty.
            if found != wanted and (wanted or 0 < found < file.next_entry):
                broken.add(-1, -1, f"slot {slot} of {file.path.name}")
    return broken
