"""A JSON file under ``config``, with its previous version beside it.

A write replaces the file at once, which a kill of the process survives; the previous version
stays as ``.bak`` until the new one is known to survive a loss of power, too.
Source: RocketMQ 4.9.8, ConfigManager and MixAll.string2File.
"""

import hashlib
import logging
from pathlib import Path
from typing import final

from lanemq.wire import RemoteProtocolError, fastjson

from ._errors import ConfigInvalid
from ._files import Files

LOGGER = logging.getLogger(__name__)
MAX_BYTES = 1 << 30


@final
class Document:
    """One such file. Its members are those of the JSON object in it."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._written = 0
        self._durable = 0  # the count of writes that the durable version belongs to

    def load(self, *, after_crash: bool) -> dict[str, object]:
        """The members; none where neither file nor backup exists.

        A file that is missing, empty or broken is replaced by its backup. Raises
        ``ConfigInvalid`` where there is something, but nothing that can be read; after a crash a
        file without any backup may be the first one ever written, and counts as missing.
        """
        problems = []
        for path in (self.path, self._backup):
            data = self._files.read_all(path)
            if data is None:
                continue
            try:
                members = fastjson.loads(data, max_bytes=MAX_BYTES) if data.strip() else None
            except RemoteProtocolError as error:
                problems.append(f"{path} cannot be read: {error}")
                continue
            if isinstance(members, dict):
                for problem in problems:
                    LOGGER.warning("%s; its backup is used", problem)
                if problems or after_crash:
                    self._durable = -1  # what may be broken must not become the backup
                return members
            problems.append(f"{path} is empty" if members is None else f"{path} is no object")
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
        """Of the bytes that ``load`` would look at first; empty where there is no file."""
        for path in (self.path, self._backup):
            data = self._files.read_all(path)
            if data is not None:
                return hashlib.sha256(data).hexdigest()
        return ""

    def modified_s(self) -> float:
        """When they were written, as Unix time in seconds; 0 where there is no file."""
        for path in (self.path, self._backup):
            if self._files.exists(path):
                return self._files.modified_s(path)
        return 0.0

    def write(self, members: dict[str, object]) -> None:
        """Replace the file. Raises ``OSError``; the old version is in place then."""
        temporary = self.path.with_name(self.path.name + ".tmp")
        self._files.write_all(temporary, fastjson.dumps(dict(sorted(members.items())), pretty=True))
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
