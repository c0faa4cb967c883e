"""The requests that a name server answers.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, final

import trio

from lanemq.storage import replace_file
from lanemq.wire import ORDER_TOPIC_NAMESPACE, Refused, RequestCode, ResponseCode, Version
from lanemq.wire.bodies import DataVersion, KVTable, TopicList
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerResponse,
    DeleteTopicFromNamesrv,
    GetRouteInfo,
    GetTopicsByCluster,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerResponse,
)

from .._settings import ConfigError, parse_properties
from ..net._dispatch import QUICK_BODY_BYTES, Handlers, typed
from ..net._session import Session
from ._config import BLOCKED_KEYS, NameServerConfig
from ._known import KnownBrokers
from ._kv import KVConfig
from ._kv_requests import KVRequests
from ._requests import RegistrationRead, asker, is_compressed, registration, wanted_indices
from .logical._routes import Asker, LogicalRoutes
from .routes._registration import Registration, is_changed
from .routes._table import RouteTable

LOGGER = logging.getLogger("lanemq.proxy.nameserver")

READING_THREADS: Final = 2
"""Threads for long registrations; the disk of a broker in the same process needs threads, too."""


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
        self._known = known if known is not None else KnownBrokers(None)
        self._reading = trio.CapacityLimiter(READING_THREADS)
        self._now_s = now_s
        self._logical = LogicalRoutes(routes, wait_s=config.logical_queue_wait_time / 1000)

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        add = handlers.add
        KVRequests(self._kv).add_to(handlers)
        add(RequestCode.REGISTER_BROKER, typed(RegisterBroker, self._register))
        add(RequestCode.UNREGISTER_BROKER, typed(UnregisterBroker, self._unregister))
        add(RequestCode.QUERY_DATA_VERSION, typed(QueryDataVersion, self._query_version))
        add(RequestCode.GET_ROUTEINFO_BY_TOPIC, typed(GetRouteInfo, self._route))
        add(RequestCode.GET_BROKER_CLUSTER_INFO, self._cluster_info)
        add(RequestCode.WIPE_WRITE_PERM_OF_BROKER, typed(WipeWritePermOfBroker, self._wipe_write))
        add(RequestCode.ADD_WRITE_PERM_OF_BROKER, typed(AddWritePermOfBroker, self._add_write))
        add(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self._all_topics)
        add(RequestCode.DELETE_TOPIC_IN_NAMESRV, typed(DeleteTopicFromNamesrv, self._delete_topic))
        add(RequestCode.GET_TOPICS_BY_CLUSTER, typed(GetTopicsByCluster, self._topics_of_cluster))
        add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self._system_topics)
        add(RequestCode.GET_UNIT_TOPIC_LIST, self._by_unit(unit=True, unit_sub=None))
        add(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self._by_unit(unit=None, unit_sub=True))
        add(
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            self._by_unit(unit=False, unit_sub=True),
        )
        add(RequestCode.UPDATE_NAMESRV_CONFIG, self._update_config)
        add(RequestCode.GET_NAMESRV_CONFIG, self._get_config)

    # Brokers

    def _register(
        self, header: RegisterBroker, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        if len(frame.body) > QUICK_BODY_BYTES or is_compressed(header, frame):
            return self._register_long(header, frame, session)
        return self._registered(header, frame, session, registration(header, frame))

    async def _register_long(self, header: RegisterBroker, frame: Frame, session: Session) -> Frame:
        """Register with a body that takes a while to read.

        Like at Apache's, nothing is said of the order of requests that do not wait for answers.
        """
        read = partial(registration, header, frame)
        found = await trio.to_thread.run_sync(read, limiter=self._reading)
        return self._registered(header, frame, session, found)

    def _registered(
        self, header: RegisterBroker, frame: Frame, session: Session, read: RegistrationRead
    ) -> Frame:
        body, said = read
        wrapper = body.topic_config_wrapper
        known_before = self._routes.is_registered(header.broker_addr)
        self._known.note(header.broker_name)
        master = self._routes.register(
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
                ha_address=header.ha_server_addr,
                data_version=wrapper.data_version,
                topics=tuple(wrapper.topic_config_table.values()),
                filter_servers=(
                    body.filter_server_list if frame.version >= Version.V3_0_11 else None
                ),
            ),
            now_s=self._now_s(),
            connection=session.id,
        )
        self._logical.register(
            said, now_s=self._now_s(), connection=session.id, was_known=known_before
        )
        self._log_news()
        if not known_before:
            LOGGER.info(
                "broker %s %s of cluster %s has registered",
                header.broker_name,
                header.broker_addr,
                header.cluster_name,
            )
        if self._forget_at_end not in session.on_close:
            session.on_close.append(self._forget_at_end)
        self._charge(session, header.broker_addr)
        answer = RegisterBrokerResponse(
            ha_server_addr=master.ha_address,
            master_addr=master.master_address,
            serve_logical_queue_to_java=(
                None if said.report is None else self._config.serve_logical_queue_to_java
            ),
        )
        order = None
        if self._config.return_order_topic_config_to_broker:
            order = self._kv.namespace(ORDER_TOPIC_NAMESPACE)
        return frame.reply(
            fields=answer.to_fields(), body=b"" if order is None else KVTable(order).encode()
        )

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

    def _unregister(self, header: UnregisterBroker, frame: Frame, session: Session) -> Frame:
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
        if header.forget_logical_queues:
            self._logical.forget_broker(header.broker_name, now_s=self._now_s())
            LOGGER.info("%s: the logical queues of %s are forgotten", session, header.broker_name)
            self._log_news()
        return frame.reply()

    def _query_version(self, header: QueryDataVersion, frame: Frame, session: Session) -> Frame:
        known = self._routes.data_version(header.broker_addr)
        changed = is_changed(known, DataVersion.decode(frame.body))
        if not changed:
            self._routes.heard_from(header.broker_addr, now_s=self._now_s())
        return frame.reply(
            fields=QueryDataVersionResponse(changed=changed).to_fields(),
            body=b"" if known is None else known.encode(),
        )

    def _wipe_write(self, header: WipeWritePermOfBroker, frame: Frame, session: Session) -> Frame:
        count = self._routes.wipe_write_permission(header.broker_name)
        LOGGER.info("%s: broker %s made read-only in %d topics", session, header.broker_name, count)
        return frame.reply(fields=WipeWritePermOfBrokerResponse(wipe_topic_count=count).to_fields())

    def _add_write(self, header: AddWritePermOfBroker, frame: Frame, session: Session) -> Frame:
        count = self._routes.add_write_permission(header.broker_name)
        LOGGER.info("%s: broker %s made writable in %d topics", session, header.broker_name, count)
        return frame.reply(fields=AddWritePermOfBrokerResponse(add_topic_count=count).to_fields())

    def _cluster_info(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=self._routes.cluster_info().encode())

    # Topics

    def _route(self, header: GetRouteInfo, frame: Frame, session: Session) -> Frame:
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
        return frame.reply(body=route.encode(standard=standard))

    def _delete_topic(
        self, header: DeleteTopicFromNamesrv, frame: Frame, session: Session
    ) -> Frame:
        cluster = header.cluster_name or None
        self._routes.delete_topic(header.topic, cluster=cluster)
        self._logical.delete_topic(header.topic, cluster=cluster, now_s=self._now_s())
        self._log_news()
        return frame.reply()

    def _all_topics(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=TopicList(tuple(self._routes.topics())).encode())

    def _topics_of_cluster(
        self, header: GetTopicsByCluster, frame: Frame, session: Session
    ) -> Frame:
        topics = self._routes.topics_of_cluster(header.cluster)
        return frame.reply(body=TopicList(tuple(topics)).encode())

    def _system_topics(self, frame: Frame, session: Session) -> Frame:
        topics, address = self._routes.system_topics()
        return frame.reply(body=TopicList(tuple(topics), address).encode())

    def _by_unit(
        self, *, unit: bool | None, unit_sub: bool | None
    ) -> Callable[[Frame, Session], Frame]:
        def handle(frame: Frame, session: Session) -> Frame:
            topics = self._routes.topics_by_unit(unit=unit, unit_sub=unit_sub)
            return frame.reply(body=TopicList(tuple(topics)).encode())

        return handle

    # Settings

    def _update_config(self, frame: Frame, session: Session) -> Frame:
        try:
            properties = parse_properties(frame.body, source="request")
            if not BLOCKED_KEYS.isdisjoint(properties):
                raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
            changed = self._config.changed(properties)
        except ConfigError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if self._config.config_store_path is not None:
            replace_file(self._config.config_store_path, changed.to_text())
        self._config.adopt(changed)
        return frame.reply()

    def _get_config(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=self._config.to_text())

    def _log_news(self) -> None:
        for news in self._logical.take_news():
            LOGGER.warning("logical queues: %s", news)
