"""Tools' requests about users (3001 to 3005) and their policies (3006 to 3010).

A super user is made, changed and deleted by super users only.

Source: RocketMQ 5.3.3, AdminBrokerProcessor, AuthenticationMetadataManagerImpl,
AuthorizationMetadataManagerImpl.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, final

import trio

from lanemq.wire import ACCESS_KEY_FIELD, Refused, RequestCode, ResponseCode, fastjson
from lanemq.wire.bodies import AclInfo, PolicyInfo, UserInfo
from lanemq.wire.frame import Frame

from ...net._dispatch import Handlers
from ...net._session import Session
from ._policies import POLICY_TYPES, PolicyType, merged, without
from ._resources import Resource
from ._table import SUBJECT_PREFIX, USER_TYPES, User, UserTable, UserType, entries_of

Code = RequestCode
USERS_MAX: Final = 10_000
"""Users of a broker: the whole table is written at each change."""
_BLANK: Final = "The username is blank"


@final
class UserRequests:
    """The handlers of requests about users and policies."""

    def __init__(self, table: UserTable) -> None:
        self._table = table
        self._changing = trio.Lock()

    # Users

    async def create_user(self, frame: Frame, session: Session) -> Frame:
        name, info = _named(frame), UserInfo.decode(frame.body)
        user_type = USER_TYPES.get((info.user_type or "").lower(), UserType.NORMAL)
        if user_type is UserType.SUPER:
            self._require_super(frame, "create", ResponseCode.SYSTEM_ERROR)
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
            self._require_super(frame, "update", ResponseCode.SYSTEM_ERROR)

        def update() -> None:
            user = self._table.users.get(name)
            if user is None:
                raise _refused("The user is not exist")
            if user.user_type is UserType.SUPER:
                self._require_super(frame, "update", ResponseCode.NO_PERMISSION)
            self._table.put(user.changed(info))

        return await self._change(frame, update)

    async def delete_user(self, frame: Frame, session: Session) -> Frame:
        name = _named(frame)

        def delete() -> None:
            user = self._table.users.get(name)
            if user is not None:
                if user.user_type is UserType.SUPER:
                    self._require_super(frame, "update", ResponseCode.NO_PERMISSION)
                self._table.delete(name)

        return await self._change(frame, delete)

    def user(self, frame: Frame, session: Session) -> Frame:
        user = self._table.users.get(_named(frame))
        return frame.reply(body=b"" if user is None else user.info.encode())

    def users(self, frame: Frame, session: Session) -> Frame:
        wanted = frame.fields.get("filter", "").strip()
        users = self._table.users
        found = [users[name].info for name in sorted(users) if wanted in name]
        return frame.reply(body=_encoded(found))

    # Policies

    async def put_acl(self, frame: Frame, session: Session) -> Frame:
        info = AclInfo.decode(frame.body or b"{}")
        name = _user_of(info.subject or frame.fields.get("subject", ""))
        try:
            entries = entries_of(info.policies)
        except ValueError as error:
            raise _refused(str(error)) from None

        def put() -> None:
            user = self._table.users.get(name)
            if user is None:
                raise _refused(f"The subject of {SUBJECT_PREFIX}{name} is not exist.")
            self._table.put(replace(user, policies=merged(user.policies, entries)))

        return await self._change(frame, put)

    async def delete_acl(self, frame: Frame, session: Session) -> Frame:
        fields = frame.fields
        name = _user_of(fields.get("subject", ""))
        policy_type = POLICY_TYPES.get(fields.get("policyType", "").lower(), PolicyType.CUSTOM)
        resource = Resource.parse(fields.get("resource", ""))
        if resource is None and fields.get("resource", "").strip():
            raise _refused("The resource is null.")  # Apache's would delete all of them

        def delete() -> None:
            user = self._table.users.get(name)
            if user is None:
                raise _refused("The subject is not exist.")
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

    def acls(self, frame: Frame, session: Session) -> Frame:
        subject = frame.fields.get("subjectFilter", "").strip()
        resource = frame.fields.get("resourceFilter", "").strip()
        found = []
        for name in sorted(self._table.users):
            key = f"{SUBJECT_PREFIX}{name}"
            if subject not in key:
                continue
            policies = tuple(
                PolicyInfo(policy.policy_type, entries)
                for policy in self._table.users[name].acl.policies
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
        return frame.reply(body=_encoded(found))

    # What they share

    async def _change(self, frame: Frame, change: Callable[[], None]) -> Frame:
        """Change the table in a thread, one change after the other."""
        async with self._changing:
            await trio.to_thread.run_sync(change)
        return frame.reply()

    def _require_super(self, frame: Frame, verb: str, code: ResponseCode) -> None:
        user = self._table.users.get(frame.fields.get(ACCESS_KEY_FIELD, ""))
        if user is None or user.user_type is not UserType.SUPER:
            raise Refused(code, f"The super user can only be {verb} by super user")


def register(handlers: Handlers, table: UserTable) -> None:
    """Register the requests about the users of ``table``."""
    requests = UserRequests(table)
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
