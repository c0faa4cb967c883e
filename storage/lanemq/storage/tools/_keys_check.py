"""The key index against the log: every key has its entry, and every chain leads on."""

import sys
from array import array
from collections.abc import Iterator
from itertools import chain, islice
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
TAIL: Final = 8
"""Of a unique key: the end of its time and its counter. What is before stays for a minute."""
SHIFT: Final = pow(31, TAIL, 1 << 32)
POWERS: Final = tuple(pow(31, TAIL - 1 - n, 1 << 32) for n in range(TAIL))
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
        self._entries: Iterator[tuple[int, int]] = chain.from_iterable(
            file.keys(_first_entry(file, begin))
            for file in used
            if file.header.end_position >= begin
        )
        self._heads: dict[str, dict[bytes, int]] = {}

    def add(self, record: Record) -> None:
        """Every key of the record has to be found."""
        if record.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK:
            return
        position = record.position
        hashes = self._key_hashes(record.topic, record.properties)
        if hashes:
            found = list(islice(self._entries, len(hashes)))
            if found == [(hash_, position) for hash_ in hashes]:
                self.check.same += len(hashes)
            else:
                self._entries = chain(found, self._entries)
                self._compare(position, keys_of(record.properties), hashes)

    def _key_hashes(self, topic: str, properties: bytes) -> list[int]:
        """The hashes of ``keys_of``, a good deal faster for keys that begin alike."""
        heads = self._heads.get(topic)
        if heads is None:
            heads = self._heads[topic] = {}
        unique = get_property(properties, UNIQ_KEY)
        keys = get_property(properties, KEYS)
        found = [] if unique is None else [_hash(topic, unique, heads)]
        if keys is not None:
            if b" " not in keys:
                found.append(_hash(topic, keys, heads))
            else:
                found += [_hash(topic, key, heads) for key in keys.split(b" ") if key]
        return found

    def _compare(self, position: int, keys: list[str], hashes: list[int]) -> None:
        check, found = self.check, self._of(position)
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

    def _of(self, position: int) -> list[int]:
        """The hashes of the next entries that are of this position; those before are astray."""
        found = []
        for hash_, at in self._entries:
            if at > position:
                self._entries = chain([(hash_, at)], self._entries)
                break
            if at == position:
                found.append(hash_)
            else:
                self.check.stray.add(-1, at)
        return found

    def close(self, end: int) -> KeysCheck:
        """Returns what was found up to ``end`` of the log."""
        left = self._of(end - 1)
        if left:
            self.check.stray.add(-1, end - 1, count=len(left))
        return self.check


def _hash(topic: str, key: bytes, heads: dict[bytes, int]) -> int:
    tail = key[-TAIL:]
    if len(tail) < TAIL or not key.isascii():
        return key_hash(topic, key.decode("utf-8", "replace"))
    name = key[:-TAIL]
    head = heads.get(name)
    if head is None:
        if len(heads) >= HEADS_MAX:
            heads.clear()
        head = heads[name] = java_hash(f"{topic}#{name.decode()}") * SHIFT
    value = (head + sum(map(mul, tail, POWERS))) & MASK
    # The magnitude of the signed number, but 0 for the one that has none.
    return value if value < SIGN else (0 if value == SIGN else (1 << 32) - value)


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
