"""The requests about the key-value configuration.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

import trio

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import KVTable
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    DeleteKVConfig,
    GetKVConfig,
    GetKVConfigResponse,
    GetKVListByNamespace,
    PutKVConfig,
)

from ..net._dispatch import Handlers, typed
from ..net._session import Session
from ..net._turns import reply_with
from ..net.limits._quotas import PeerQuota
from ._kv import KVConfig
from ._kv_draft import KVDraft
from ._kv_shares import Change, KVShares

CHANGES_MAX: Final = 1024
"""Most changes that wait to be written; one address gets a fifth."""


@final
class KVRequests:
    """The handlers over one configuration.

    One write is for all changes that waited when it began, and those that come meanwhile wait for
    the next: nobody waits for more than two, however many changes others make.
    """

    def __init__(self, kv: KVConfig) -> None:
        self._kv = kv
        self._shares = KVShares(kv)
        self._waiting: dict[Change, None] = {}
        self._places = PeerQuota[str](CHANGES_MAX)
        self._writing = trio.Lock()

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        add = handlers.add
        add(RequestCode.PUT_KV_CONFIG, typed(PutKVConfig, self.put))
        add(RequestCode.GET_KV_CONFIG, typed(GetKVConfig, self.get))
        add(RequestCode.DELETE_KV_CONFIG, typed(DeleteKVConfig, self.delete))
        add(RequestCode.GET_KVLIST_BY_NAMESPACE, typed(GetKVListByNamespace, self.table))

    async def put(self, header: PutKVConfig, frame: Frame, session: Session) -> Frame:
        put = partial(
            self._shares.put,
            host=session.peer.host,
            namespace=header.namespace,
            key=header.key,
            value=header.value,
        )
        await self._change(put, session)
        return frame.reply()

    def get(self, header: GetKVConfig, frame: Frame, session: Session) -> Frame:
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return frame.reply(fields=GetKVConfigResponse(value=value).to_fields())

    async def delete(self, header: DeleteKVConfig, frame: Frame, session: Session) -> Frame:
        delete = partial(self._shares.delete, namespace=header.namespace, key=header.key)
        await self._change(delete, session)
        return frame.reply()

    async def forget_broker(self, broker_name: str, frame: Frame, session: Session) -> Frame:
        """Remove the claims of a broker to namespaces of keys, so that others may have them."""
        delete = partial(self._shares.delete_claims, broker_name=broker_name)
        await self._change(delete, session)
        return frame.reply()

    async def _change(self, make: Callable[[KVDraft], None], session: Session) -> None:
        """Return when a change is written. Raises ``Refused`` and ``OSError`` where it is not."""
        host, change = session.peer.host, Change(make)
        if not self._places.has_room(host):
            remark = f"{len(self._places)} changes of the key-value configuration wait"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        self._places.take(host)
        self._waiting[change] = None
        try:
            async with self._writing:
                if not change.is_done:
                    changes, self._waiting = list(self._waiting), {}
                    await trio.to_thread.run_sync(self._shares.apply, changes)
        finally:
            self._waiting.pop(change, None)
            self._places.give_back(host)
        if change.error is not None:
            raise change.error

    def table(
        self, header: GetKVListByNamespace, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        table = self._kv.namespace(header.namespace)
        if table is None:
            remark = f"No config item, Namespace: {header.namespace}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return reply_with(frame, session, KVTable(table), len(table))
