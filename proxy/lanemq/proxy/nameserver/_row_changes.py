"""The requests by which operators change the rows of brokers, or remove them.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from collections.abc import Awaitable, Callable
from typing import final

from lanemq.local import get_logger
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerResponse,
    DeleteTopicFromNamesrv,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerResponse,
)

from ..net._dispatch import Handlers, typed
from ..net._session import Session
from ..net._turns import Steps, all_steps, step_by_step
from ._long_registrations import LongRegistrations
from .routes._table import RouteTable

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)


@final
class RowChanges:
    """The handlers over one route table.

    Each change comes behind a registration that is being taken over: in the middle of it, the rows
    that are still to come would be as they were before.
    """

    def __init__(
        self,
        routes: RouteTable,
        delete_logical: Callable[[str, str | None], Steps[None]],
        is_wide: Callable[[str], bool],
        long: LongRegistrations,
    ) -> None:
        self._routes = routes
        self._delete_logical = delete_logical
        self._is_wide = is_wide
        self._long = long

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        add = handlers.add
        add(RequestCode.WIPE_WRITE_PERM_OF_BROKER, typed(WipeWritePermOfBroker, self._wipe_write))
        add(RequestCode.ADD_WRITE_PERM_OF_BROKER, typed(AddWritePermOfBroker, self._add_write))
        add(RequestCode.DELETE_TOPIC_IN_NAMESRV, typed(DeleteTopicFromNamesrv, self._delete))

    def _wipe_write(
        self, header: WipeWritePermOfBroker, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        name = header.broker_name

        def wipe() -> Frame:
            count = self._routes.wipe_write_permission(name)
            LOGGER.info("%s: broker %s made read-only in %d topics", session, name, count)
            fields = WipeWritePermOfBrokerResponse(wipe_topic_count=count).to_fields()
            return frame.reply(fields=fields)

        return self._once_taken(name, wipe)

    def _add_write(
        self, header: AddWritePermOfBroker, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        name = header.broker_name

        def open_all() -> Frame:
            count = self._routes.add_write_permission(name)
            LOGGER.info("%s: broker %s made writable in %d topics", session, name, count)
            fields = AddWritePermOfBrokerResponse(add_topic_count=count).to_fields()
            return frame.reply(fields=fields)

        return self._once_taken(name, open_all)

    def _delete(
        self, header: DeleteTopicFromNamesrv, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        cluster = header.cluster_name or None

        def delete() -> Steps[Frame]:
            self._routes.delete_topic(header.topic, cluster=cluster)
            yield from self._delete_logical(header.topic, cluster)
            return frame.reply()

        if self._is_wide(header.topic) or self._long.is_taking(None):
            return self._delete_later(delete())
        return all_steps(delete())

    async def _delete_later(self, steps: Steps[Frame]) -> Frame:
        async with self._long.taking(None):
            return await step_by_step(steps)

    def _once_taken(
        self, broker_name: str | None, change: Callable[[], Frame]
    ) -> Frame | Awaitable[Frame]:
        """Make a change in the rows of a broker, or (None) of all."""
        if self._long.is_taking(broker_name):
            return self._change_later(broker_name, change)
        return change()

    async def _change_later(self, broker_name: str | None, change: Callable[[], Frame]) -> Frame:
        async with self._long.taking(broker_name):
            return change()
