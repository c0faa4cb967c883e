"""Tools' requests about users (3001 to 3005) and their policies (3006 to 3010).

A super user is made, changed and deleted by super users only, its policies as well.

Source: RocketMQ 5.3.3, AdminBrokerProcessor, AuthenticationMetadataManagerImpl,
AuthorizationMetadataManagerImpl.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, final

import trio

from lanemq.wire import Refused, RequestCode, ResponseCode, fastjson
from lanemq.wire.bodies import AclInfo, PolicyInfo, UserInfo
from lanemq.wire.frame import Frame

from ...net._dispatch import Handlers
from ...net._session import Session
from ...net._turns import beside
from ._policies import POLICY_TYPES, PolicyType, merged, never_matched, without
from ._resources import Resource
from ._table import SUBJECT_PREFIX, USER_TYPES, User, UserTable, UserType, entries_of

Code = RequestCode
USERS_MAX: Final = 10_000
"""Users of a broker: the whole table is written at each change."""
ENTRIES_MAX: Final = 1000
"""Entries of a user's policies, and addresses in them, that requests make: a decision looks at
each of them."""
_BLANK: Final = "The username is blank"


Signer = Callable[[Frame, Session], str]


@final
class UserRequests:
    """The handlers of requests about users and policies."""

    def __init__(self, table: UserTable, signer: Signer) -> None:
        self._table = table
        self._signer = signer
        self._changing = trio.Lock()
        self._listing = trio.CapacityLimiter(1)

    # Users

    async def create_user(self, frame: Frame, session: Session) -> Frame:
        name, info = _named(frame), UserInfo.decode(frame.body)
        user_type = USER_TYPES.get((info.user_type or "").lower(), UserType.NORMAL)
        if user_type is UserType.SUPER:
            self._require_super(frame, session, "create", ResponseCode.SYSTEM_ERROR)
        if not (info.password or "").strip():
            raise _refused("password can not be blank")

        def create() -> None:
            if name in self._table.users:
                raise _refused("The user is existed")
            if len(self._table.users) >= USERS_MAX:
                raise _refused(f"there are {USERS_MAX} users already, which is the limit")
            self._table.put(User.make(name, info.password or "", user_type).changed(info))

        return await self._change(frame, create)

    async def update_user(self, frame: Frame, session: Session) -> Frame:
        name, info = _named(frame), UserInfo.decode(frame.body)
        if USER_TYPES.get((info.user_type or "").lower()) is UserType.SUPER:
            self._require_super(frame, session, "update", ResponseCode.SYSTEM_ERROR)

        def update() -> None:
            user = self._table.users.get(name)
            if user is None:
                raise _refused("The user is not exist")
            if user.user_type is UserType.SUPER:
                self._require_super(frame, session, "update", ResponseCode.NO_PERMISSION)
            self._table.put(user.changed(info))

        return await self._change(frame, update)

    async def delete_user(self, frame: Frame, session: Session) -> Frame:
        name = _named(frame)

        def delete() -> None:
            user = self._table.users.get(name)
            if user is not None:
                if user.user_type is UserType.SUPER:
                    self._require_super(frame, session, "update", ResponseCode.NO_PERMISSION)
                self._table.delete(name)

        return await self._change(frame, delete)

    def user(self, frame: Frame, session: Session) -> Frame:
        user = self._table.users.get(_named(frame))
        return frame.reply(
            body=b""
            if user is None
            else _shown(user, is_super=self._is_super(frame, session)).encode()
        )

    async def users(self, frame: Frame, session: Session) -> Frame:
        wanted = frame.fields.get("filter", "").strip()
        users, is_super = self._table.users, self._is_super(frame, session)

        def listed() -> bytes:
            return _encoded(
                [_shown(users[name], is_super=is_super) for name in sorted(users) if wanted in name]
            )

        return frame.reply(body=await beside(session, listed, self._listing))

    # Policies

    async def put_acl(self, frame: Frame, session: Session) -> Frame:
        info = AclInfo.decode(frame.body or b"{}")
        name = _user_of(info.subject or frame.fields.get("subject", ""))
        try:
            entries = entries_of(info.policies)
        except ValueError as error:
            raise _refused(str(error)) from None
        for _, entry in entries:
            why = never_matched(entry)
            if why is not None:
                raise _refused(why)

        def put() -> None:
            user = self._table.users.get(name)
            if user is None:
                raise _refused(f"The subject of {SUBJECT_PREFIX}{name} is not exist.")
            self._check_policies_of(user, frame, session)
            policies = merged(user.policies, entries)
            number = sum(
                1 + len(entry.networks) for named in policies.values() for entry in named.values()
            )
            if number > ENTRIES_MAX:
                remark = f"{number} entries and addresses, a user has at most {ENTRIES_MAX}"
                raise _refused(remark)
            self._table.put(replace(user, policies=policies))

        return await self._change(frame, put)

    async def delete_acl(self, frame: Frame, session: Session) -> Frame:
        fields = frame.fields
        name = _user_of(fields.get("subject", ""))
        policy_type = POLICY_TYPES.get(fields.get("policyType", "").lower(), PolicyType.CUSTOM)
        try:
            resource = Resource.parse(fields.get("resource", ""))
        except ValueError as error:
            raise _refused(str(error)) from None
        if resource is None and fields.get("resource", "").strip():
            raise _refused("The resource is null.")  # Apache's would delete all of them

        def delete() -> None:
            user = self._table.users.get(name)
            if user is None:
                raise _refused("The subject is not exist.")
            self._check_policies_of(user, frame, session)
            if not user.policies:
                raise _refused("The acl is not exist.")
            left = {} if resource is None else without(user.policies, policy_type, resource)
            self._table.put(replace(user, policies=left))

        return await self._change(frame, delete)

    def acl(self, frame: Frame, session: Session) -> Frame:
        user = self._table.users.get(_user_of(frame.fields.get("subject", "")))
        if user is None:
            raise _refused("The subject is not exist.")
        return frame.reply(body=user.acl.encode() if user.policies else b"")

    async def acls(self, frame: Frame, session: Session) -> Frame:
        subject = frame.fields.get("subjectFilter", "").strip()
        resource = frame.fields.get("resourceFilter", "").strip()
        users = self._table.users

        def listed() -> bytes:
            return _encoded(_acls(users, subject, resource))

        return frame.reply(body=await beside(session, listed, self._listing))

    # What they share

    async def _change(self, frame: Frame, change: Callable[[], None]) -> Frame:
        """Change the table in a thread, one change after the other."""
        async with self._changing:
            await trio.to_thread.run_sync(change)
        return frame.reply()

    def _is_super(self, frame: Frame, session: Session) -> bool:
        user = self._table.users.get(self._signer(frame, session))
        return user is not None and user.user_type is UserType.SUPER

    def _check_policies_of(self, user: User, frame: Frame, session: Session) -> None:
        """Check that a sender may change the policies of a user. Raises ``Refused``."""
        if user.user_type is UserType.SUPER:
            self._require_super(frame, session, "update", ResponseCode.NO_PERMISSION)

    def _require_super(self, frame: Frame, session: Session, verb: str, code: ResponseCode) -> None:
        if not self._is_super(frame, session):
            raise Refused(code, f"The super user can only be {verb} by super user")


def register(handlers: Handlers, table: UserTable, signer: Signer) -> None:
    """Register the requests about the users of ``table``; ``signer`` returns the user who has
    signed a request."""
    requests = UserRequests(table, signer)
    answering: dict[int, Callable[[Frame, Session], Frame | Awaitable[Frame]]] = {
        Code.AUTH_CREATE_USER: requests.create_user,
        Code.AUTH_UPDATE_USER: requests.update_user,
        Code.AUTH_DELETE_USER: requests.delete_user,
        Code.AUTH_GET_USER: requests.user,
        Code.AUTH_LIST_USER: requests.users,
        Code.AUTH_CREATE_ACL: requests.put_acl,
        Code.AUTH_UPDATE_ACL: requests.put_acl,
        Code.AUTH_DELETE_ACL: requests.delete_acl,
        Code.AUTH_GET_ACL: requests.acl,
        Code.AUTH_LIST_ACL: requests.acls,
    }
    for code, handler in answering.items():
        handlers.add(code, handler)


def _acls(users: Mapping[str, User], subject: str, resource: str) -> list[AclInfo]:
    """Return the policies of the users whose name has one text, about resources with the other."""
    found = []
    for name in sorted(users):
        key = f"{SUBJECT_PREFIX}{name}"
        if subject not in key:
            continue
        policies = tuple(
            PolicyInfo(policy.policy_type, entries)
            for policy in users[name].acl.policies
            if (
                entries := tuple(
                    entry
                    for entry in policy.entries
                    if resource in key or resource in (entry.resource or "")
                )
            )
        )
        if policies:
            found.append(AclInfo(key, policies))
    return found


def _shown(user: User, *, is_super: bool) -> UserInfo:
    """Return what a sender sees of a user: the password is for super users."""
    return user.info if is_super else replace(user.info, password=None)


def _named(frame: Frame) -> str:
    name = frame.fields.get("username", "")
    if not name.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, _BLANK)
    return name


def _user_of(subject: str) -> str:
    kind, _, name = subject.partition(":")
    if f"{kind}:".lower() != SUBJECT_PREFIX.lower():
        raise _refused("The subject type is null.")
    return name


def _refused(remark: str) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark)


def _encoded(found: list[UserInfo] | list[AclInfo]) -> bytes:
    return fastjson.dumps([one.to_json() for one in found]) if found else b""
