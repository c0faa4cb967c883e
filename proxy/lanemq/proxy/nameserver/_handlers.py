"""The requests that a name server answers.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import final

from lanemq.local import get_logger
from lanemq.wire import (
    ORDER_TOPIC_NAMESPACE,
    Refused,
    RequestCode,
    ResponseCode,
    Version,
)
from lanemq.wire.bodies import DataVersion
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetRouteInfo,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
)
from lanemq.wire.logical import LOGICAL_QUEUES_MEMBER

from ..net._dispatch import QUICK_BODY_BYTES, Handlers, typed
from ..net._session import Session
from ..net._turns import Steps, all_steps, reply_with, step_by_step
from ._config import NameServerConfig
from ._config_requests import ConfigRequests
from ._known import KnownBrokers
from ._kv import KVConfig
from ._kv_requests import KVRequests
from ._long_registrations import LongRegistrations
from ._requests import (
    RegistrationRead,
    asker,
    check_names,
    check_place,
    is_compressed,
    registration,
    wanted_indices,
)
from ._row_changes import RowChanges
from ._topic_lists import TopicLists
from .logical._registration import LogicalRegistration
from .logical._route_maker import Asker
from .logical._routes import LogicalTopics
from .logical._view import ShownTopic
from .routes._registration import Registration, is_changed
from .routes._rows import ROWS_OF_A_STEP
from .routes._table import FILTER_SERVERS_MAX, RouteTable

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)


@final
class NameServerHandlers:
    """The handlers over the tables; ``now_s`` is the clock that measures brokers' silence."""

    def __init__(
        self,
        config: NameServerConfig,
        routes: RouteTable,
        kv: KVConfig,
        *,
        now_s: Callable[[], float],
        known: KnownBrokers | None = None,
    ) -> None:
        self._config = config
        self._routes = routes
        self._kv = kv
        self._claims = KVRequests(kv)
        self._known = known if known is not None else KnownBrokers(None)
        self._long = LongRegistrations()
        self._now_s = now_s
        self._logical = LogicalTopics(routes, wait_s=config.logical_queue_wait_time / 1000)
        self._changes = RowChanges(routes, self._delete_logical, self._logical.is_wide, self._long)

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        add = handlers.add
        self._claims.add_to(handlers)
        TopicLists(self._routes).add_to(handlers)
        self._changes.add_to(handlers)
        ConfigRequests(self._config).add_to(handlers)
        add(RequestCode.REGISTER_BROKER, typed(RegisterBroker, self._register))
        add(RequestCode.UNREGISTER_BROKER, typed(UnregisterBroker, self._unregister))
        add(RequestCode.QUERY_DATA_VERSION, typed(QueryDataVersion, self._query_version))
        add(RequestCode.GET_ROUTEINFO_BY_TOPIC, typed(GetRouteInfo, self._route))
        add(RequestCode.GET_BROKER_CLUSTER_INFO, self._cluster_info)

    # Brokers

    def _register(
        self, header: RegisterBroker, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        check_names(header)
        is_long = len(frame.body) > QUICK_BODY_BYTES or is_compressed(header, frame)
        if is_long or self._long.is_taking(header.broker_name):
            return self._register_long(header, frame, session)
        read = registration(header, frame)
        if self._is_to_be_written(header, session) or self._takes_turns(read.logical):
            return self._register_in_turns(header, frame, session, read)
        return all_steps(self._registered(header, frame, session, read))

    def _takes_turns(self, said: LogicalRegistration) -> bool:
        """Return whether a registration concerns many topics, though it may name few of them."""
        deleted = said.deleted_logs_of_keys(self._routes)
        return len(deleted) > ROWS_OF_A_STEP or self._logical.takes_turns(said)

    async def _register_long(self, header: RegisterBroker, frame: Frame, session: Session) -> Frame:
        """Register with a body that takes a while to read, or behind one of the same broker.

        Like at Apache's, nothing is said of the order of requests that do not wait for answers.
        """
        read = await self._long.read(header, frame, session)
        return await self._register_in_turns(header, frame, session, read)

    async def _register_in_turns(
        self, header: RegisterBroker, frame: Frame, session: Session, read: RegistrationRead
    ) -> Frame:
        if self._is_to_be_written(header, session):
            await self._known.write()  # before the answer: a broker that knows it has registered
        async with self._long.taking(header.broker_name):
            with self._logical.taking_over(read.logical.queues):
                return await step_by_step(self._registered(header, frame, session, read))

    def _is_to_be_written(self, header: RegisterBroker, session: Session) -> bool:
        """Note a broker that gets a place; returns whether its name has to be written first."""
        check_place(header, session, self._routes)
        return self._known.note(header.broker_name, session.peer.host)

    def _registered(
        self, header: RegisterBroker, frame: Frame, session: Session, read: RegistrationRead
    ) -> Steps[Frame]:
        address, name, host = header.broker_addr, header.broker_name, session.peer.host
        said = replace(read.logical, host=host)
        check_place(header, session, self._routes)
        known_before = self._routes.is_registered(address)
        if self._forget_at_end not in session.on_close:
            session.on_close.append(self._forget_at_end)
        filters = read.filter_servers if frame.version >= Version.V3_0_11 else None
        if filters is not None and len(filters) > FILTER_SERVERS_MAX:
            kept = FILTER_SERVERS_MAX
            LOGGER.warning("broker %s has %d filter servers: %d are kept", name, len(filters), kept)
        master = yield from self._routes.register_in_steps(
            Registration(
                cluster=header.cluster_name,
                broker_name=name,
                broker_id=header.broker_id,
                address=address,
                host=host,
                ha_address=header.ha_server_addr,
                data_version=read.data_version,
                topics=read.topics,
                filter_servers=filters,
            ),
            now_s=self._now_s(),
            connection=session.id,
        )
        for number, topic in enumerate(said.deleted_logs_of_keys(self._routes)):
            if number and number % ROWS_OF_A_STEP == 0:
                yield None
            self._routes.delete_topic(topic, broker=name)
        yield from self._logical.register_in_steps(
            said, now_s=self._now_s(), connection=session.id, was_known=known_before
        )
        self._log_news()
        if not known_before:
            named = name, address, header.cluster_name
            LOGGER.info("broker %s %s of cluster %s has registered", *named)
        self._charge(session, address)
        to_java = None if said.report is None else self._config.serve_logical_queue_to_java
        answer = RegisterBrokerResponse(
            ha_server_addr=master.ha_address,
            master_addr=master.master_address,
            serve_logical_queue_to_java=to_java,
        )
        is_told = self._config.return_order_topic_config_to_broker
        order = self._kv.answer(ORDER_TOPIC_NAMESPACE) if is_told else b""
        return frame.reply(fields=answer.to_fields(), body=order)

    def _charge(self, session: Session, address: str) -> None:
        """Charge a connection for the rows of the broker at ``address``.

        They go with the connection, and so does the charge.
        """
        charged: dict[str, int] = session.attributes.setdefault("rows of brokers", {})
        kept_bytes = self._routes.kept_bytes(address)
        before = charged.get(address, 0)
        charged[address] = kept_bytes
        session.account.add(kept_bytes - before)

    def _forget_at_end(self, session: Session) -> None:
        for address in self._routes.connection_closed(session.id):
            LOGGER.warning("broker %s is gone: its connection has ended", address)

    def _unregister(
        self, header: UnregisterBroker, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        name = header.broker_name
        if (
            header.forget_logical_queues
            and not self._known.may_know(name)
            and not self._logical.problems()  # what is missing may be from before this server
        ):
            remark = f"no broker of the name {name!r} has ever registered here"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        self._routes.unregister(broker_name=header.broker_name, address=header.broker_addr)
        LOGGER.info("broker %s %s has unregistered", header.broker_name, header.broker_addr)
        reply = frame.reply()
        return self._forget_broker(name, frame, session) if header.forget_logical_queues else reply

    async def _forget_broker(self, name: str, frame: Frame, session: Session) -> Frame:
        async with self._long.taking(name):
            await step_by_step(self._logical.forget_broker_in_steps(name, now_s=self._now_s()))
        LOGGER.info("%s: the logical queues of %s are forgotten", session, name)
        self._log_news()
        return await self._claims.forget_broker(name, frame, session)

    def _query_version(self, header: QueryDataVersion, frame: Frame, session: Session) -> Frame:
        known = self._routes.data_version(header.broker_addr)
        changed = is_changed(known, DataVersion.decode(frame.body))
        if not changed:
            self._routes.heard_from(header.broker_addr, now_s=self._now_s())
        return frame.reply(
            fields=QueryDataVersionResponse(changed=changed).to_fields(),
            body=b"" if known is None else known.encode(),
        )

    def _cluster_info(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        info = self._routes.cluster_info()
        fields = self._known.asked_by(frame.fields)
        return reply_with(frame, session, info, len(info.broker_addr_table), fields)

    # Topics

    def _route(
        self, header: GetRouteInfo, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        client = asker(header, frame)
        if self._logical.is_long(header.topic, client, now_s=self._now_s()):
            return self._route_later(header, frame, session)
        return self._route_with(header, frame, session, None)

    async def _route_later(self, header: GetRouteInfo, frame: Frame, session: Session) -> Frame:
        async with self._long.taking(""):  # behind registrations, which change the topic
            client, now_s = asker(header, frame), self._now_s()
            steps = self._logical.view_in_steps(header.topic, client, now_s=now_s)
            view = await step_by_step(steps)
        answer = self._route_with(header, frame, session, view)
        return await answer if isinstance(answer, Awaitable) else answer

    def _route_with(
        self, header: GetRouteInfo, frame: Frame, session: Session, view: ShownTopic | None
    ) -> Frame | Awaitable[Frame]:
        route, client = self._routes.route(header.topic), asker(header, frame)
        if route is not None:
            if self._config.order_message_enable:
                order = self._kv.get(ORDER_TOPIC_NAMESPACE, header.topic)
                route = replace(route, order_topic_conf=order)
            route = self._logical.route(
                header.topic,
                route,
                client,
                now_s=self._now_s(),
                serve_to_java=self._config.serve_logical_queue_to_java,
                indices=wanted_indices(header),
                view=view,
            )
            self._log_news()
        if route is None:
            remark = f"No topic route info in name server for the topic: {header.topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        # Clients from 4.9.4 on read strict JSON, and so do those that know of logical queues;
        # many others read only numbers as broker ids.
        standard = (
            frame.version >= Version.V4_9_4
            or header.accept_standard_json_only is True
            or client is not Asker.OLD
        )
        queues = route.extra.get(LOGICAL_QUEUES_MEMBER)
        parts = 2 * len(route.broker_datas) + (len(queues) if isinstance(queues, dict) else 0)
        return reply_with(frame, session, route, parts, standard=standard)

    def _delete_logical(self, topic: str, cluster: str | None) -> Steps[None]:
        yield from self._logical.delete_topic(topic, cluster=cluster, now_s=self._now_s())
        self._log_news()

    def _log_news(self) -> None:
        for news in self._logical.take_news():
            LOGGER.warning("logical queues: %s", news)
