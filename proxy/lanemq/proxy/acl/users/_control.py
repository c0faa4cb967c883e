"""The check of every request at the ports of a process by users and policies.

Source: RocketMQ 5.3.3, AuthenticationPipeline, AuthorizationPipeline,
AuthenticationMetadataManagerImpl.initUser.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, final

import trio

from lanemq.sdk import Credentials
from lanemq.storage import system_clock_ms
from lanemq.wire import ACCESS_KEY_FIELD, Refused, ResponseCode
from lanemq.wire import RequestCode as Code
from lanemq.wire.frame import Frame
from lanemq.wire.logical import SERVERS_FIELDS

from ..._settings import ConfigError
from ...net._session import Session
from ...net._turns import Steps
from .._refusals import Refusals
from .._rights import UNLIMITED, Lacking, Rights, Sender
from .._rules import servers_only
from .._signature_check import misdirected
from .._touched import parts_of
from ._resources import NAME_MAX
from ._rules import (
    is_limited,
    lacking,
    lacking_in_parts,
    lacking_of,
    names_group,
    reader_at,
    stranger,
)
from ._table import User, UserTable, UserType

CLAIMS_MAX: Final = 4096
"""Groups for which is remembered whether policies name them."""


@final
class UserControl:
    """The check of requests by the users in the file at ``path``.

    ``super_users`` are made where they do not exist. With ``checks_policies`` users need them.
    Codes in ``open_to_all`` are let in from anyone, those in ``open_to_users`` from any user.
    ``addresses`` are those by which other brokers know this one, ``host:port``.
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
        addresses: Collection[str] = (),
    ) -> None:
        self._addresses = addresses
        self.table = UserTable(path)
        self.refusals = Refusals()
        self._cluster = cluster
        self._checks_policies = checks_policies
        self._open_to_all = open_to_all
        self._open_to_users = open_to_users
        self._claims_of: Mapping[str, User] = {}
        self._claims: dict[str, bool] = {}
        for one in super_users:
            if one.access_key not in self.table.users:
                self.table.put(User.make(one.access_key, one.secret_key, UserType.SUPER))
        if not self.table.users:
            raise ConfigError(
                "authenticationEnabled is true, but there are no users: set "
                'initAuthenticationUser={"username":"…","password":"…"} for the first one'
            )

    def check(self, frame: Frame, session: Session) -> Steps[None] | None:
        """Let a request in, or raise ``Refused`` (NO_PERMISSION) with Apache's text."""
        users, host = self.table.users, session.peer.host
        why = misdirected(frame, self._addresses, system_clock_ms)
        if why is None and frame.code not in self._open_to_all:
            why = stranger(users, frame)
        if why is None:
            name, is_open = self.signer(frame, session), frame.code in self._open_to_users
            if self._checks_policies and not is_open:
                parts = parts_of(reader_at(self._cluster, frame), frame)
                if parts is not None:
                    judged = lacking_in_parts(users, frame, host, parts, name=name)
                    return self._judged(frame, session, judged)
                why = lacking(users, frame, host, self._cluster, name=name)
            elif not SERVERS_FIELDS.isdisjoint(frame.fields) and self._is_stranger(name):
                why = servers_only(frame)
        if why is not None:
            raise self._refused(frame, session, why)
        return None

    def _judged(self, frame: Frame, session: Session, steps: Steps[str | None]) -> Steps[None]:
        why = yield from steps
        if why is not None:
            raise self._refused(frame, session, why)

    def rights(self, frame: Frame, session: Session) -> Rights:
        name, host = self.signer(frame, session), session.peer.host
        if frame.code in self._open_to_users or not self._limits(name):
            return UNLIMITED
        return Rights(self._lacking(name, host), partial(self._refused, frame, session))

    def sender(self, frame: Frame, session: Session) -> Sender:
        name = self.signer(frame, session)
        user = self.table.users.get(name)
        return Sender(name, "" if user is None else user.signatures.mark)

    def rights_of(self, sender: Sender, host: str) -> Rights:
        name, user = sender.name, self.table.users.get(sender.name)
        if user is not None and user.signatures.mark != sender.mark:
            return Rights(lambda _: f"User:{name} has another password now.")
        if self._limits(name):
            return Rights(self._lacking(name, host))
        if Code.HEART_BEAT in self._open_to_all or (user is not None and user.is_let_in):
            return UNLIMITED
        return Rights(lambda _: f"User:{name} is not let in.")

    def signer(self, frame: Frame, session: Session) -> str:
        """Return the user who has signed a request; "" for nobody, where it need not be signed."""
        if frame.code in self._open_to_all and stranger(self.table.users, frame) is not None:
            return ""
        return frame.fields.get(ACCESS_KEY_FIELD, "")

    def _is_stranger(self, name: str) -> bool:
        """Return whether a signer may not speak as a server; where policies are not checked, that
        is who has not signed at all."""
        return is_limited(self.table.users, name) if self._checks_policies else not name

    def _limits(self, name: str) -> bool:
        return self._checks_policies and is_limited(self.table.users, name)

    def _lacking(self, name: str, host: str) -> Lacking:
        return partial(lacking_of, self.table.users, name, host, self._claimed)

    def _claimed(self, group: str) -> bool:
        """Return ``names_group``, remembered until users or policies change."""
        users = self.table.users
        if len(group) > NAME_MAX:
            return names_group(users, group)
        if self._claims_of is not users:
            self._claims_of, self._claims = users, {}
        if len(self._claims) >= CLAIMS_MAX:
            self._claims.clear()
        if group not in self._claims:
            self._claims[group] = names_group(users, group)
        return self._claims[group]

    def _refused(self, frame: Frame, session: Session, why: str) -> Refused:
        self.refusals.add(frame, session, why)
        return Refused(ResponseCode.NO_PERMISSION, why)

    async def run(self) -> None:
        """Do nothing, until cancelled: the table is changed by requests alone."""
        await trio.sleep_forever()
