"""The requests about the key-value configuration.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from typing import final

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
from ._kv import KVConfig


@final
class KVRequests:
    """The handlers over one configuration; changes are written one after another."""

    def __init__(self, kv: KVConfig) -> None:
        self._kv = kv
        self._changing = trio.Lock()

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        add = handlers.add
        add(RequestCode.PUT_KV_CONFIG, typed(PutKVConfig, self.put))
        add(RequestCode.GET_KV_CONFIG, typed(GetKVConfig, self.get))
        add(RequestCode.DELETE_KV_CONFIG, typed(DeleteKVConfig, self.delete))
        add(RequestCode.GET_KVLIST_BY_NAMESPACE, typed(GetKVListByNamespace, self.table))

    async def put(self, header: PutKVConfig, frame: Frame, session: Session) -> Frame:
        async with self._changing:
            put = self._kv.put
            await trio.to_thread.run_sync(put, header.namespace, header.key, header.value)
        return frame.reply()

    def get(self, header: GetKVConfig, frame: Frame, session: Session) -> Frame:
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return frame.reply(fields=GetKVConfigResponse(value=value).to_fields())

    async def delete(self, header: DeleteKVConfig, frame: Frame, session: Session) -> Frame:
        async with self._changing:
            await trio.to_thread.run_sync(self._kv.delete, header.namespace, header.key)
        return frame.reply()

    def table(self, header: GetKVListByNamespace, frame: Frame, session: Session) -> Frame:
        table = self._kv.namespace(header.namespace)
        if table is None:
            remark = f"No config item, Namespace: {header.namespace}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return frame.reply(body=KVTable(table).encode())
