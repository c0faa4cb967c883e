"""A disk in memory that crashes, tears and fills up: for simulations and tests.

Fault model:

* A **kill** of the process keeps every byte that was written, and every name.
* A **loss of power** keeps what was synced. Of the writes to a file since then, either a number
  of the first ones survive and the next may be torn, or each sector has what it had after some
  of them, on its own. A disk writes a sector (512 bytes) whole or not at all; a torn write reaches
  some of its sectors. Names that were made, moved or removed since
  the last sync of a directory survive in their order, up to a point.
* ``crash_after`` operations that change something, the process dies: that one is done in part,
  and every later one raises ``Crash``, until ``reboot`` gives the disk to the next process.
* ``space_bytes`` is what may still be written; what exceeds it is written up to there, and fails.
* ``sync_fails`` makes every sync fail.

All that is random comes from one seed. Directories as such never get lost.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, final

import trio

from lanemq.storage._errors import StoreLocked
from lanemq.storage.disk._files import Entry, Usage

SYNC_MEAN_S = 0.005
SECTOR = 512


class Crash(BaseException):  # the end of a process, not a fault of it: nobody may go on
    """The simulated process is dead."""


@final
class _Content:
    """The bytes of one file, and what of them is durable."""

    def __init__(self, size_bytes: int = 0) -> None:
        self.data = bytearray(size_bytes)
        self.durable = bytes(self.data)
        self.writes: list[tuple[int, bytes]] = []  # since then; size changes come as whole content
        self.modified_s = 0.0

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self.writes.append((position, data))

    def replace(self, data: bytes) -> None:
        self.data[:] = data
        self.writes.append((-1, data))

    def after_power_loss(self, rng: random.Random) -> "_Content":
        left = _Content()
        left.data = self._in_order(rng) if rng.random() < 0.5 else self._in_any_order(rng)
        left.durable = bytes(left.data)
        return left

    def _in_order(self, rng: random.Random) -> bytearray:
        """Return the bytes after a number of the writes, and some sectors of the next."""
        data, kept = bytearray(self.durable), rng.randint(0, len(self.writes))
        for write in self.writes[:kept]:
            _apply(data, *write)
        torn = bytearray(data)
        for write in self.writes[kept : kept + 1]:
            _apply(torn, *write)
        begin, end = sorted(rng.randint(0, _sectors(torn)) for _ in range(2))
        begin = 0 if rng.random() < 0.5 else begin
        _copy_sectors(data, torn, range(begin, end))
        return data

    def _in_any_order(self, rng: random.Random) -> bytearray:
        """Return the bytes where each sector has come as far as it will."""
        data, now = bytearray(self.durable), bytearray(self.durable)
        versions: dict[int, list[bytes]] = {}
        for position, written in self.writes:
            _apply(now, position, written)
            first, last = max(position, 0), max(position, 0) + len(written)
            for sector in range(first // SECTOR, -(-last // SECTOR)):
                versions.setdefault(sector, []).append(_sector(now, sector))
        if any(position < 0 for position, _ in self.writes) and rng.random() < 0.5:
            del data[len(now) :]
        for sector, came in sorted(versions.items()):
            number = rng.randint(0, len(came))
            if number:
                _apply(data, sector * SECTOR, came[number - 1])
        return data


def _sectors(data: bytearray) -> int:
    return -(-len(data) // SECTOR)


def _sector(data: bytearray, number: int) -> bytes:
    return bytes(data[number * SECTOR : (number + 1) * SECTOR])


def _copy_sectors(data: bytearray, source: bytearray, numbers: range) -> None:
    for number in numbers:
        _apply(data, number * SECTOR, _sector(source, number))


def _apply(data: bytearray, position: int, written: bytes) -> None:
    if position < 0:
        data[:] = written
    elif written:
        data.extend(bytes(max(0, position - len(data))))
        data[position : position + len(written)] = written


@final
class SimulatedFile:
    """A ``File`` of a ``SimulatedFiles``."""

    def __init__(self, files: "SimulatedFiles", path: Path, content: _Content) -> None:
        self._files = files
        self._path = path
        self._content = content

    @property
    def path(self) -> Path:
        return self._path

    def read(self, position: int, size_bytes: int) -> bytes:
        self._files.check_alive()
        return bytes(self._content.data[position : position + size_bytes])

    def write(self, position: int, data: bytes | bytearray) -> None:
        whole = bytes(data)
        allowed = self._files.take_space(len(whole))
        if allowed == len(whole) and not self._files.dies_now():
            self._files.write(self._content, position, whole)
            return
        if allowed == len(whole):
            allowed = self._files.rng.randint(0, allowed)
        self._files.write(self._content, position, whole[:allowed])
        self._files.check_alive()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def erase(self, position: int) -> None:
        self._files.change()
        data = self._content.data
        self._content.replace(bytes(data[:position]) + bytes(len(data) - position))

    def next_data(self, position: int) -> int:
        self._files.check_alive()
        rest = self._content.data[position:]
        return position + len(rest) - len(rest.lstrip(b"\0")) if any(rest) else -1

    async def sync(self) -> None:
        await self._files.sync_content(self._content)

    def close(self) -> None:
        pass


@final
class _Lock:
    def __init__(self, files: "SimulatedFiles", path: Path) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.locked.discard(self._path)


@final
class SimulatedFiles:
    """The ``Files`` of the disk described above. ``now_s`` is the clock of file times."""

    def __init__(self, *, seed: int = 0, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self.rng = random.Random(seed)
        self.now_s = now_s
        self.crash_after: int | None = None
        """The operation, counted from now, that kills the process; None for never."""
        self.space_bytes: int | None = None
        """Bytes that may still be written; None for no limit."""
        self.sync_fails = False
        self.used_ratio = 0.1
        """The share that ``usage`` tells."""
        self.operations = 0
        """Operations that changed something."""
        self.syncs = 0
        """Files synced."""
        self.locked: set[Path] = set()
        self._dead = False
        self._names: dict[Path, _Content] = {}
        self._directories: set[Path] = set()
        # The names as they were at the last sync and after each change since then.
        self._history: list[dict[Path, _Content]] = [{}]

    # The process

    def check_alive(self) -> None:
        if self._dead:
            raise Crash

    def dies_now(self) -> bool:
        """Count an operation; whether it is the one that kills."""
        self.check_alive()
        self.operations += 1
        if self.crash_after is not None:
            self.crash_after -= 1
            self._dead = self.crash_after < 0
        return self._dead

    def change(self) -> None:
        """Count an operation that is done as a whole or not at all."""
        if self.dies_now() and self.rng.random() < 0.5:
            raise Crash

    def kill(self) -> None:
        """Kill the process now."""
        self._dead = True

    def revive(self) -> None:
        """Take back ``kill``: it was only to see what would be left."""
        self._dead = False

    def reboot(self, how: Literal["kill", "power"]) -> "SimulatedFiles":
        """Return the disk as the next process finds it, without the faults that were asked for."""
        after = SimulatedFiles(seed=self.rng.getrandbits(64), now_s=self.now_s)
        names = self._names if how == "kill" else self.rng.choice(self._history)
        for path, content in names.items():
            if how == "power":
                content = content.after_power_loss(self.rng)
            after._names[path] = content
        after._directories = set(self._directories)
        after._history = [dict(after._names)]
        return after

    def take_space(self, wanted: int) -> int:
        if self.space_bytes is None:
            return wanted
        taken = min(wanted, self.space_bytes)
        self.space_bytes -= taken
        return taken

    def write(self, content: _Content, position: int, data: bytes) -> None:
        content.write(position, data)
        content.modified_s = self.now_s()

    async def sync_content(self, content: _Content) -> None:
        self.check_alive()
        covered, snapshot = len(content.writes), bytes(content.data)
        await trio.sleep(self.rng.expovariate(1 / SYNC_MEAN_S))
        self.change()
        if self.sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.syncs += 1
        content.durable = snapshot
        del content.writes[:covered]

    # Files

    def open(self, path: Path) -> SimulatedFile:
        self.check_alive()
        return SimulatedFile(self, path, self._existing(path))

    def _existing(self, path: Path) -> _Content:
        content = self._names.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return content

    def _rename(self, names: dict[Path, _Content]) -> None:
        self._names = names
        self._history.append(names)

    def create(self, path: Path, size_bytes: int) -> SimulatedFile:
        if self.take_space(1) < 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if path in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        dying = self.dies_now()
        content = _Content(0 if dying else size_bytes)
        content.modified_s = self.now_s()
        self.make_directory(path.parent)
        self._rename(self._names | {path: content})
        if dying:  # between making the file and giving it its size
            raise Crash
        return SimulatedFile(self, path, content)

    def entries(self, directory: Path) -> list[Entry]:
        self.check_alive()
        found = {
            path.name: Entry(path.name, False, len(content.data))
            for path, content in self._names.items()
            if path.parent == directory
        }
        for path in self._directories:
            if path.parent == directory:
                found[path.name] = Entry(path.name, True, 4096)
        return [found[name] for name in sorted(found)]

    def exists(self, path: Path) -> bool:
        self.check_alive()
        return path in self._names or path in self._directories

    def read_all(self, path: Path) -> bytes | None:
        self.check_alive()
        content = self._names.get(path)
        return bytes(content.data) if content is not None else None

    async def write_parts(self, path: Path, parts: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        self.write_all(path, b"".join(parts))
        await trio.lowlevel.checkpoint()

    def write_all(self, path: Path, data: bytes) -> None:
        if path not in self._names:
            self.create(path, 0)
        content = self._names[path]
        if self.take_space(len(data)) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if self.dies_now():
            data = data[: self.rng.randint(0, len(data))]
        content.replace(data)
        content.modified_s = self.now_s()
        self.check_alive()

    def make_directory(self, path: Path) -> None:
        while path != path.parent and path not in self._directories:
            self._directories.add(path)
            path = path.parent

    def remove(self, path: Path) -> None:
        self.change()
        if path in self._directories:
            self._directories.discard(path)
        else:
            self._existing(path)
            self._rename({name: kept for name, kept in self._names.items() if name != path})

    def move(self, source: Path, target: Path) -> None:
        self.change()
        if source in self._directories:
            self._move_directory(source, target)
            return
        content = self._existing(source)
        names = {name: kept for name, kept in self._names.items() if name != source}
        self._rename(names | {target: content})

    def _move_directory(self, source: Path, target: Path) -> None:
        def moved(path: Path) -> Path:
            return target / path.relative_to(source) if path.is_relative_to(source) else path

        self._directories = {moved(path) for path in self._directories}
        self._rename({moved(path): content for path, content in self._names.items()})

    def link(self, source: Path, target: Path) -> None:
        self.change()
        self._rename(self._names | {target: self._existing(source)})

    def modified_s(self, path: Path) -> float:
        self.check_alive()
        return self._existing(path).modified_s

    def set_modified_s(self, path: Path, time_s: float) -> None:
        self._existing(path).modified_s = time_s

    def usage(self, path: Path) -> Usage:
        self.check_alive()
        return Usage(10_000, int(self.used_ratio * 10_000))

    async def sync_path(self, path: Path) -> None:
        content = self._names.get(path)
        if content is not None:
            await self.sync_content(content)
            return
        self.check_alive()
        names = self._names
        await trio.sleep(self.rng.expovariate(1 / SYNC_MEAN_S))
        self.change()
        if self.sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if names in self._history:  # else a later sync has covered it already
            self._history = self._history[self._history.index(names) :]

    def lock(self, path: Path, root: Path) -> _Lock:
        self.check_alive()
        if path in self.locked:
            raise StoreLocked(root)
        self.write_all(path, b"lock")
        self.locked.add(path)
        return _Lock(self, path)
