"""The check of every request at the ports of a process by users and policies.

Source: RocketMQ 5.3.3, AuthenticationPipeline, AuthorizationPipeline,
AuthenticationMetadataManagerImpl.initUser.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import final

import trio

from lanemq.sdk import Credentials
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame

from ..._settings import ConfigError
from ...net._session import Session
from .._refusals import Refusals
from ._rules import lacking, stranger
from ._table import User, UserTable, UserType


@final
class UserControl:
    """The check of requests by the users in the file at ``path``.

    ``super_users`` are made where they do not exist. With ``checks_policies`` users need them.
    Codes in ``open_to_all`` are let in from anyone, those in ``open_to_users`` from any user.
    Raises ``ConfigError`` for a damaged file and where there is no user at all, and ``OSError``.
    """

    def __init__(
        self,
        path: Path,
        *,
        cluster: str,
        super_users: Iterable[Credentials],
        checks_policies: bool,
        open_to_all: frozenset[int],
        open_to_users: frozenset[int],
    ) -> None:
        self.table = UserTable(path)
        self.refusals = Refusals()
        self._cluster = cluster
        self._checks_policies = checks_policies
        self._open_to_all = open_to_all
        self._open_to_users = open_to_users
        for one in super_users:
            if one.access_key not in self.table.users:
                self.table.put(User.make(one.access_key, one.secret_key, UserType.SUPER))
        if not self.table.users:
            raise ConfigError(
                "authenticationEnabled is true, but there are no users: set "
                'initAuthenticationUser={"username":"…","password":"…"} for the first one'
            )

    def check(self, frame: Frame, session: Session) -> None:
        """Let a request in, or raise ``Refused`` (NO_PERMISSION) with Apache's text."""
        users, host = self.table.users, session.peer.host
        why = None if frame.code in self._open_to_all else stranger(users, frame)
        if why is None and self._checks_policies and frame.code not in self._open_to_users:
            why = lacking(users, frame, host, self._cluster)
        if why is not None:
            self.refusals.add(frame, session, why)
            raise Refused(ResponseCode.NO_PERMISSION, why)

    async def run(self) -> None:
        """Do nothing, until cancelled: the table is changed by requests alone."""
        await trio.sleep_forever()
