"""The key index against the log: every key has its entry, and every chain leads on."""

import sys
from array import array
from collections.abc import Iterator
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Final, final

from lanemq.wire import SysFlag

from ..._search import first_offset
from ...index._key_hashes import Key, key_hashes
from ...index._keys import split_keys
from ...index._slots import SLOT_BYTES
from ..reading._index_files import IndexFileView
from ._rows import Fields
from ._tally import KeysCheck, Tally

NEVER: Final = 1 << 63
ROLLBACK: Final[int] = SysFlag.TRANSACTION_ROLLBACK


@final
class KeyIndexCheck:
    """The check of the key index, whose entries and the given records come in the order of the
    log."""

    def __init__(self, files: list[IndexFileView], begin: int) -> None:
        """Take the index; the first record comes at or behind log position ``begin``."""
        self.check = KeysCheck()
        used = [file for file in files if file.next_entry > 1]
        self._first = used[0].header.begin_position if used else NEVER
        self._newest = used[-1].header.end_position if used else -1
        self._entries: Iterator[tuple[int, int]] = chain.from_iterable(
            file.keys(_first_entry(file, begin))
            for file in used
            if file.header.end_position >= begin
        )
        self._heads: dict[tuple[str, bytes], int] = {}
        self._before: tuple[int, list[int]] = (-1, [])
        """Position and hashes of the record before: a redo that begins with it indexes it again.
        Source: RocketMQ 4.9.8, IndexService.buildIndex, which compares with ``<``."""

    def add(self, rows: list[Fields]) -> None:
        """Check that every key of these records is in the index."""
        wanted = keys_in(rows)
        if not wanted:
            return
        positions = [position for position, _, _ in wanted]
        hashes = key_hashes(wanted, self._heads)
        found = list(islice(self._entries, len(hashes)))
        if found == list(zip(hashes, positions, strict=True)):
            self.check.same += len(found)
        else:
            self._entries = chain(found, self._entries)
            self._add_singly(wanted, hashes)
        self._before = positions[-1], hashes[positions.index(positions[-1]) :]

    def _add_singly(self, wanted: list[Key], hashes: list[int]) -> None:
        """Check record by record, where the entries differ from the wanted ones."""
        at = 0
        for position, group in groupby(wanted, key=itemgetter(0)):
            keys = [key.decode("utf-8", "replace") for _, _, key in group]
            end = at + len(keys)
            self._compare(position, keys, hashes[at:end], self._before)
            self._before = position, hashes[at:end]
            at = end

    def _compare(
        self, position: int, keys: list[str], hashes: list[int], before: tuple[int, list[int]]
    ) -> None:
        check, found = self.check, self._of(position, before)
        for key, hash_ in zip(keys, hashes, strict=True):
            if hash_ in found:
                check.same += 1
            elif position < self._first:
                check.before.add(-1, position, key)
            elif position > self._newest:
                check.behind.add(-1, position, key)
            else:
                check.missing.add(-1, position, key)
        # A redo indexes the same record twice: only what is not a key of it is astray.
        astray = [hash_ for hash_ in found if hash_ not in hashes]
        if astray:
            check.stray.add(-1, position, count=len(astray))

    def _of(self, position: int, before: tuple[int, list[int]]) -> list[int]:
        """Take the hashes of the next entries that are of this position; earlier ones are stray,
        except for a second time those of the record ``before``."""
        found = []
        for hash_, at in self._entries:
            if at > position:
                self._entries = chain([(hash_, at)], self._entries)
                break
            if at == position:
                found.append(hash_)
            elif at != before[0] or hash_ not in before[1]:
                self.check.stray.add(-1, at)
        return found

    def close(self, end: int) -> KeysCheck:
        """Return what was found up to ``end`` of the log."""
        left = self._of(end - 1, self._before)
        if left:
            self.check.stray.add(-1, end - 1, count=len(left))
        return self.check


def keys_in(rows: list[Fields]) -> list[Key]:
    """Return all keys of some records, in the order in which they are indexed."""
    found: list[Key] = []
    for position, _, topic, _, _, flags, _, _, _, unique, keys in rows:
        if flags and flags & ROLLBACK == ROLLBACK:
            continue
        if unique is not None:
            found.append((position, topic, unique))
        if keys is not None:
            if b" " not in keys:
                found.append((position, topic, keys))
            else:
                found += [(position, topic, key) for key in split_keys(keys)]
    return found


def _first_entry(file: IndexFileView, begin: int) -> int:
    def is_wanted(number: int) -> bool:
        entry = next(file.entries(number), None)
        return entry is None or entry[1] >= begin

    return first_offset(1, file.next_entry, is_wanted)


def check_chains(file: IndexFileView) -> Tally:
    """Check a file's chains: each entry names the one before it in its slot.

    Returns the entries and slots that do not; the position is that of the message.
    """
    broken = Tally()
    slots = file.sizes.slots
    newest = array("i", bytes(slots * SLOT_BYTES))
    first = 1
    for hashes, positions, before in file.columns():
        number = first
        for slot, previous in zip([hash_ % slots for hash_ in hashes], before, strict=True):
            if previous != newest[slot]:
                at = positions(number - first)
                broken.add(number, at, f"entry {number} of {file.path.name}")
            newest[slot] = number
            number += 1
        first = number
    table = array("i", file.slots())
    if sys.byteorder == "little":
        table.byteswap()
    if table != newest:
        for slot, (found, wanted) in enumerate(zip(table, newest, strict=False)):
            # A slot that leads nowhere there is counts as empty.
            if found != wanted and (wanted or 0 < found < file.next_entry):
                broken.add(-1, -1, f"slot {slot} of {file.path.name}")
    return broken
