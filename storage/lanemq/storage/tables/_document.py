"""A JSON file under ``config``, with its previous version beside it.

A write replaces the file at once, which a kill of the process survives; the previous version
stays as ``.bak`` until the new one is known to survive a loss of power, too.
Source: RocketMQ 4.9.8, ConfigManager and MixAll.string2File.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, final

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError, fastjson

from .._errors import ConfigInvalid
from ..disk._files import Files
from ..disk._real_files import RealFiles
from ..disk._threads import in_thread

LOGGER = get_logger(__name__)
_T = TypeVar("_T")
MAX_BYTES = 1 << 30
MAX_DEPTH = 2 * fastjson.MAX_DEPTH
"""Depth limit of the JSON: a request's body may lie some levels deeper in the file."""


@final
class Document:
    """A file with one JSON object, whose members are the document's."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._written = 0
        self._durable = 0  # the count of writes that the durable version belongs to
        self.loaded_sha256 = ""
        """SHA-256 of the bytes that ``load`` read, which may be the backup's; empty without any."""

    def load(self, *, after_crash: bool) -> dict[str, object]:
        """Return the members; none where neither file nor backup exists.

        A file that is missing, empty or broken is replaced by its backup. Raises
        ``ConfigInvalid`` where there is something, but nothing that can be read; after a crash a
        file without any backup may be the first one ever written, and counts as missing.
        """
        problems = []
        self.loaded_sha256 = ""
        for path in (self.path, self._backup):
            data = self._files.read_all(path)
            if data is None:
                continue
            try:
                members = _loads(data) if data.strip() else None
            except RemoteProtocolError as error:
                problems.append(f"{path} cannot be read: {error}")
                continue
            if isinstance(members, dict):
                self.loaded_sha256 = hashlib.sha256(data).hexdigest()
                for problem in problems:
                    LOGGER.warning("%s; its backup is used", problem)
                if problems or after_crash:
                    self._durable = -1  # a file that may be broken must not become the backup
                return members
            problems.append(f"{path} is empty" if members is None else f"{path} is not an object")
        if problems and not (after_crash and not self._files.exists(self._backup)):
            if all(problem.endswith("is empty") for problem in problems):
                LOGGER.warning("%s", "; ".join(problems))
                return {}
            raise ConfigInvalid("; ".join(problems))
        for problem in problems:
            broken = self.path.with_name(self.path.name + ".broken")
            LOGGER.warning("%s; a crash interrupted its first write: it is now %s", problem, broken)
            self._files.move(self.path, broken)
        return {}

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes that ``load`` would look at first; empty where there is
        no file."""
        for path in (self.path, self._backup):
            data = self._files.read_all(path)
            if data is not None:
                return hashlib.sha256(data).hexdigest()
        return ""

    def modified_s(self) -> float:
        """Return the Unix time of the last write in seconds; 0 where there is no file."""
        for path in (self.path, self._backup):
            if self._files.exists(path):
                return self._files.modified_s(path)
        return 0.0

    def write(self, members: dict[str, object]) -> None:
        """Replace the file. Raises ``OSError``; the old version is in place then."""
        temporary = self.path.with_name(self.path.name + ".tmp")
        self._files.write_all(temporary, b"".join(_parts(members)))
        self._put_in_place(temporary)

    async def beside(self, call: Callable[[], _T]) -> _T:
        """Call in a thread, as the files are written; at once where they are not real ones."""
        return await in_thread(call) if isinstance(self._files, RealFiles) else call()

    async def write_off_loop(self, members: dict[str, object]) -> None:
        """Do ``write`` with the members as of now, while the loop serves others.

        A ``write`` that comes in the meantime is newer, and stays. One call at a time.
        """
        parts, written = _parts(members), self._written
        temporary = self.path.with_name(self.path.name + ".new")
        await self._files.write_parts(temporary, parts)
        if self._written == written:
            self._put_in_place(temporary)
        else:
            self._files.remove(temporary)

    def _put_in_place(self, temporary: Path) -> None:
        if self._durable == self._written and self._files.exists(self.path):
            self._files.link(self.path, self._backup)
        self._files.move(temporary, self.path)
        self._written += 1

    async def sync(self) -> None:
        """Return once the last write is durable. Raises ``OSError``."""
        written = self._written
        if self._durable != written and self._files.exists(self.path):
            await self._files.sync_path(self.path)
            await self._files.sync_path(self.path.parent)
            self._durable = written


def _parts(members: dict[str, object]) -> list[bytes]:
    return fastjson.dump_parts(dict(sorted(members.items())), pretty=True)


def _loads(data: bytes) -> object:
    return fastjson.loads(data, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH, is_own=True)
