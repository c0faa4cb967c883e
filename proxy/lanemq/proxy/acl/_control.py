"""The check of every request at the ports of a process, by accounts that are read again when
their files change."""

import logging
from pathlib import Path
from typing import Final, Protocol, final

import trio

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame

from .._file_stamps import stamp_of
from .._settings import ConfigError
from ..net._session import Session
from ._accounts import Accounts
from ._files import AccountFiles, Edit
from ._refusals import Refusals
from ._rules import refusal_of

LOGGER = logging.getLogger("lanemq.proxy.acl")

LOOK_S: Final = 5.0
"""Seconds between looks at the files, as at Apache's brokers."""

# The remark that Apache's brokers make of an error ends with a position in their source, which
# changes from release to release; up to there this is theirs.
_REMARK: Final = "org.apache.rocketmq.acl.common.AclException: {}"


class AccessControl(Protocol):
    """The check of requests from outside: by accounts (4.x), or by users and policies (5.x)."""

    @property
    def refusals(self) -> Refusals:
        """The requests that were refused."""

    def check(self, frame: Frame, session: Session) -> None:
        """Let a request in, or raise ``Refused`` with Apache's code and text."""

    async def run(self) -> None:
        """Keep it up to date, until cancelled."""


@final
class AccountControl:
    """The check of requests by the accounts in ``files``. Raises ``ConfigError`` for files that
    cannot be read; later on, what was read last stays in force then."""

    def __init__(self, files: AccountFiles) -> None:
        self._files = files
        self._stamp = stamp_of(files.paths())
        self.accounts: Accounts = files.read()
        """The accounts in force."""
        self._reading = trio.Lock()
        self.refusals = Refusals()

    @property
    def main_file(self) -> Path:
        """The file that gets new accounts."""
        return self._files.main

    def check(self, frame: Frame, session: Session) -> None:
        """Let a request in, or raise ``Refused`` (SYSTEM_ERROR) with Apache's text."""
        why = refusal_of(self.accounts, frame, session.peer.host)
        if why is not None:
            self.refusals.add(frame, session, why)
            raise Refused(ResponseCode.SYSTEM_ERROR, _REMARK.format(why))

    async def run(self) -> None:
        """Read the files again whenever one has changed, until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the files again if one has changed since the last look."""
        async with self._reading:
            stamp = await trio.to_thread.run_sync(lambda: stamp_of(self._files.paths()))
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                accounts = await trio.to_thread.run_sync(self._files.read)
            except ConfigError as error:
                LOGGER.error("%s; the accounts read before stay in force", error)
                return
            self.accounts = accounts
            LOGGER.info("accounts read again: %d", len(accounts.by_key))

    async def change(self, edit: Edit, now_ms: int) -> None:
        """Change the files; it counts at once. Errors as ``AccountFiles.change``."""
        async with self._reading:
            self.accounts = await trio.to_thread.run_sync(self._files.change, edit, now_ms)
