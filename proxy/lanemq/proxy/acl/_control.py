"""The check of every request at the ports of a process, by accounts that are read again when
their files change."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final

import trio

from lanemq.local import get_logger
from lanemq.storage import system_clock_ms
from lanemq.wire import ACCESS_KEY_FIELD, Refused, ResponseCode
from lanemq.wire.frame import Frame

from .._file_stamps import stamp_of
from .._settings import ConfigError
from ..net._session import Session
from ..net._turns import Steps
from ._accounts import Accounts
from ._files import AccountFiles, Edit
from ._refusals import Refusals
from ._rights import UNLIMITED, Rights, Sender
from ._rules import is_limited, lacking_of, mark_of, proof_of, refusal_of, signer_of
from ._signature_check import misdirected

LOGGER = get_logger("lanemq.proxy.acl", by_peers=True)

LOOK_S: Final = 5.0
"""Seconds between looks at the files, as at Apache's brokers."""

SETTLED_S: Final = 0.5
"""Seconds for which changed files have to stay the same: until then they may be half written, and
half a file may let in more than the whole."""
UNFINISHED_S: Final = 2.0
"""The same, where a file ends within a line."""

# The remark that Apache's brokers make of an error ends with a position in their source, which
# changes from release to release; up to there this is theirs.
_REMARK: Final = "org.apache.rocketmq.acl.common.AclException: {}"


class AccessControl(Protocol):
    """The check of requests from outside: by accounts (4.x), or by users and policies (5.x)."""

    @property
    def refusals(self) -> Refusals:
        """The requests that were refused."""

    def check(self, frame: Frame, session: Session) -> Steps[None] | None:
        """Let a request in, or raise ``Refused`` with Apache's code and text.

        What is returned are the steps that do so, where a request names very much.
        """

    def rights(self, frame: Frame, session: Session) -> Rights:
        """Return the rights of the sender of a request that was let in."""

    def signer(self, frame: Frame, session: Session) -> str:
        """Return the account that has signed a request which was let in; "" where none had to."""

    def sender(self, frame: Frame, session: Session) -> Sender:
        """Return the account behind a request that was let in, for ``rights_of`` later."""

    def rights_of(self, sender: Sender, host: str) -> Rights:
        """Return the rights that an account has now from ``host``, for ``Rights.may`` alone: none
        once its secret is another."""

    async def run(self) -> None:
        """Keep it up to date, until cancelled."""


@final
class AccountControl:
    """The check of requests by the accounts in ``files``. Raises ``ConfigError`` for files that
    cannot be read; later on, what was read last stays in force then.

    ``addresses`` are those by which other brokers know this one, ``host:port``.
    """

    def __init__(self, files: AccountFiles, *, addresses: Collection[str] = ()) -> None:
        self._files = files
        self._addresses = addresses
        self._stamp = stamp_of(files.paths())
        self.accounts: Accounts = files.read()
        """The accounts in force."""
        self._reading = trio.Lock()
        self._unseen = ""
        """The last error of a file that could not be looked at; "" where all can be."""
        self.refusals = Refusals()

    @property
    def main_file(self) -> Path:
        """The file that gets new accounts."""
        return self._files.main

    def check(self, frame: Frame, session: Session) -> Steps[None] | None:
        """Let a request in, or raise ``Refused`` (SYSTEM_ERROR) with Apache's text."""
        why: str | Steps[str | None] | None
        why = misdirected(frame, self._addresses, system_clock_ms)
        if why is None:
            why = refusal_of(self.accounts, frame, session.peer.host)
        if isinstance(why, str):
            raise self._refused(frame, session, why)
        return None if why is None else self._judged(frame, session, why)

    def _judged(self, frame: Frame, session: Session, steps: Steps[str | None]) -> Steps[None]:
        why = yield from steps
        if why is not None:
            raise self._refused(frame, session, why)

    def rights(self, frame: Frame, session: Session) -> Rights:
        access_key = frame.fields.get(ACCESS_KEY_FIELD, "")
        if not is_limited(self.accounts, access_key, session.peer.host):
            return UNLIMITED
        return Rights(
            partial(lacking_of, self.accounts, access_key), partial(self._refused, frame, session)
        )

    def signer(self, frame: Frame, session: Session) -> str:
        return signer_of(self.accounts, frame, session.peer.host)

    def sender(self, frame: Frame, session: Session) -> Sender:
        name = frame.fields.get(ACCESS_KEY_FIELD, "")
        return Sender(name, proof_of(self.accounts, frame, session.peer.host))

    def rights_of(self, sender: Sender, host: str) -> Rights:
        accounts, name = self.accounts, sender.name
        # Where the address is enough now, anybody could send as this account.
        needed = mark_of(accounts, name, host)
        if needed and needed != sender.mark:
            return Rights(lambda _: f"accessKey={name} has another secret now")
        if not is_limited(accounts, name, host):
            return UNLIMITED
        return Rights(partial(lacking_of, accounts, name))

    def _refused(self, frame: Frame, session: Session, why: str) -> Refused:
        self.refusals.add(frame, session, why)
        return Refused(ResponseCode.SYSTEM_ERROR, _REMARK.format(why))

    async def run(self) -> None:
        """Read the files again whenever one has changed, until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the files again if one has changed since the last look, once they stay the same."""
        async with self._reading:
            try:
                stamp = await trio.to_thread.run_sync(lambda: stamp_of(self._files.paths()))
            except ConfigError as error:
                if str(error) != self._unseen:
                    self._unseen = str(error)
                    LOGGER.error("%s; the accounts read before stay in force", error)
                return
            self._unseen = ""
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                data = await self._settled()
                accounts = await trio.to_thread.run_sync(self._files.parse, data)
            except ConfigError as error:
                LOGGER.error("%s; the accounts read before stay in force", error)
                return
            self.accounts = accounts
            LOGGER.info("accounts read again: %d", len(accounts.by_key))

    async def _settled(self) -> Mapping[Path, bytes]:
        """Return the contents of the files once they stay the same. Raises ``ConfigError``."""
        data = await trio.to_thread.run_sync(self._files.data)
        while True:
            is_whole = all(text.endswith((b"\n", b"\r")) for text in data.values())
            await trio.sleep(SETTLED_S if is_whole else UNFINISHED_S)
            again = await trio.to_thread.run_sync(self._files.data)
            if again == data:
                return data
            data = again

    async def change(self, edit: Edit, now_ms: int) -> None:
        """Change the files; it counts at once. Errors as ``AccountFiles.change``.

        Files that somebody else changes just now are left to settle first.
        """
        async with self._reading:
            if await trio.to_thread.run_sync(lambda: stamp_of(self._files.paths())) != self._stamp:
                await self._settled()
            self.accounts = await trio.to_thread.run_sync(self._files.change, edit, now_ms)
