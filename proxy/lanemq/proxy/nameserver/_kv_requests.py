"""The requests about the key-value configuration.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from collections.abc import Awaitable
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
from lanemq.wire.kv import CLAIMS_NAMESPACE, claim_key, parse_claims

from ..net._dispatch import Handlers, typed
from ..net._session import Session
from ..net._turns import reply_with
from ._kv import KVConfig
from ._kv_shares import KVShares


@final
class KVRequests:
    """The handlers over one configuration; changes are written one after another."""

    def __init__(self, kv: KVConfig) -> None:
        self._kv = kv
        self._shares = KVShares(kv)
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
            host, put = session.peer.host, self._shares.put
            await trio.to_thread.run_sync(put, host, header.namespace, header.key, header.value)
        return frame.reply()

    def get(self, header: GetKVConfig, frame: Frame, session: Session) -> Frame:
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return frame.reply(fields=GetKVConfigResponse(value=value).to_fields())

    async def delete(self, header: DeleteKVConfig, frame: Frame, session: Session) -> Frame:
        async with self._changing:
            await trio.to_thread.run_sync(self._shares.delete, header.namespace, header.key)
        return frame.reply()

    async def forget_broker(self, broker_name: str, frame: Frame) -> Frame:
        """Remove the claims of a broker to namespaces of keys, so that others may have them."""
        async with self._changing:
            claims = parse_claims(self._kv.namespace(CLAIMS_NAMESPACE) or {})
            for namespace, broker in claims:
                if broker == broker_name:
                    key = claim_key(namespace, broker)
                    await trio.to_thread.run_sync(self._shares.delete, CLAIMS_NAMESPACE, key)
        return frame.reply()

    def table(
        self, header: GetKVListByNamespace, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        table = self._kv.namespace(header.namespace)
        if table is None:
            remark = f"No config item, Namespace: {header.namespace}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return reply_with(frame, session, KVTable(table), len(table))
