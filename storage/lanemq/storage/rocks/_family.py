"""Reading one column family, with the errors that the binding swallows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast, final

from rocksdict import Rdict, RdictIter, ReadOptions

from ._opening import rocks_error

Result = TypeVar("Result")


@final
class Family:
    """A column family. Keys and values are bytes. What RocksDB refuses is ``OSError``."""

    def __init__(self, family: Rdict, directory: Path) -> None:
        self._family = family
        self._directory = directory

    def get(self, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._family.get(key))
        except Exception as error:
            raise rocks_error(error, self._directory) from error

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """Return one value for each key."""
        # The types of the binding know single keys only.
        found = self._call(lambda: self._family.get(keys))  # type: ignore[arg-type]
        return cast("list[bytes | None]", found)

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over keys and values from ``begin`` up to, but without, ``end``."""
        options = _up_to(end)
        last = b""
        items = self._family.items(from_key=begin, read_opt=options)
        for key, value in cast("Iterator[tuple[bytes, bytes]]", items):
            last = key
            yield key, value
        # This iterator ends at a block that cannot be read as if there were no more rows.
        self._call(lambda: self._check_end(last or begin, last != b"", options))

    def all(self) -> dict[bytes, bytes]:
        """Return every key and value, sorted by key; an unreadable one is an error."""
        options, found = ReadOptions(), dict[bytes, bytes]()
        items = self._family.items(read_opt=options)
        found.update(self._call(lambda: dict(cast("Iterator[tuple[bytes, bytes]]", items))))
        last = next(reversed(found), b"")
        self._call(lambda: self._check_end(last, bool(found), options))
        return found

    def read_all(self) -> None:
        """Read every block, of which RocksDB compares the checksum. Raises ``OSError``."""

        def read() -> None:
            rows = self._family.iter(ReadOptions())
            rows.seek_to_first()
            while rows.valid():
                rows.next()
            rows.status()

        self._call(read)

    def close(self) -> None:
        self._family.close()

    def values(self, begin: bytes, end: bytes) -> list[bytes]:
        """Return the values of ``items`` in one go; fewer, and no error, where a block cannot be
        read."""
        return self._call(lambda: list(self._family.values(from_key=begin, read_opt=_up_to(end))))

    def count(self, begin: bytes, end: bytes) -> int:
        """Count the keys; fewer, and no error, where a block cannot be read."""
        keys = self._family.keys
        return self._call(lambda: sum(1 for _ in keys(from_key=begin, read_opt=_up_to(end))))

    def key_from(self, key: bytes) -> bytes | None:
        """Return the first key that is not before ``key``."""
        return self._key_at(lambda rows: rows.seek(key))

    def key_up_to(self, key: bytes) -> bytes | None:
        """Return the last key that is not behind ``key``."""
        return self._key_at(lambda rows: rows.seek_for_prev(key))

    def _key_at(self, seek: Callable[[RdictIter], None]) -> bytes | None:
        def find() -> bytes | None:
            rows = self._family.iter()
            seek(rows)
            if rows.valid():
                return cast("bytes", rows.key())
            rows.status()
            return None

        return self._call(find)

    def _check_end(self, key: bytes, is_found: bool, options: ReadOptions) -> None:
        rows = self._family.iter(options)
        rows.seek(key)
        if is_found and rows.valid():
            rows.next()
        if not rows.valid():
            rows.status()

    def _call(self, ask: Callable[[], Result]) -> Result:
        try:
            return ask()
        except Exception as error:
            raise rocks_error(error, self._directory) from error


def _up_to(end: bytes) -> ReadOptions:
    """Return options for what is before ``end``, which has to be held as long as rows are read:
    the binding keeps a pointer to these bytes, and no copy."""
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    return options
