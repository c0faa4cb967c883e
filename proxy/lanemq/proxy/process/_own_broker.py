"""The broker of a process and the process itself, as the listener in it sees them."""

from collections.abc import Awaitable, Callable

from ..broker import Broker
from ..broker.admin._direct_consumption import DirectConsumption
from ..broker.admin._relay import Relay
from ..broker.values._own_properties import answered_properties
from ..logical.listener.brokers._own import OwnBroker
from ..logical.listener.brokers._own_answers import OwnAnswers
from ..logical.listener.port._host import Consume, ListenerHost
from ..net._dispatch import Handlers
from ..net._server import Server


def listener_host(broker: Broker) -> ListenerHost:
    """Return what a listener needs of the process of ``broker``."""
    context, config = broker.context, broker.config

    def consume_directly(name: str, record_at: Callable[[int], Awaitable[bytes | None]]) -> Consume:
        relay = Relay(clients=context.clients, rights_of=context.rights_of)
        return DirectConsumption(
            broker_name=name, record_at=record_at, relay=relay, rights=context.rights
        ).consume

    def serve(handlers: Handlers, name: str) -> Server:
        return Server(
            handlers,
            name=name,
            after_batch=[context.write],
            after_replies=[context.dispatch],
            limits=config.limits(),
            budget=context.budget,
            guard=context.guard,
            tls=broker.server.tls,
        )

    return ListenerHost(
        name=config.broker_name,
        handlers=broker.handlers,
        check_sender=broker.sends.check,
        clients=context.clients,
        group=context.groups.get,
        stages=context.stages,
        rights=context.rights,
        lock_asker=broker.typed.locks.asker,
        now_ms=context.now_ms,
        consume_directly=consume_directly,
        name_servers=config.name_servers,
        properties=answered_properties(config),
        serve=serve,
        supervise=context.supervisor.run,
    )


def own_broker(broker: Broker) -> OwnBroker:
    """Return the broker as the listener beside it asks it without a link."""
    context, typed = broker.context, broker.typed
    return OwnBroker(
        name=broker.config.broker_name,
        account=context.logical,
        mappings=context.logical.mappings,
        handlers=broker.handlers,
        answers=OwnAnswers(
            group_offset=typed.group_offsets.query,
            commit=typed.group_offsets.update,
            max_offset=typed.queue_offsets.get_max,
            min_offset=typed.queue_offsets.get_min,
            offset_at=typed.queue_offsets.search,
            earliest_time=typed.queue_offsets.earliest,
            topic_stats=typed.topics.stats_in_turns,
            lock=typed.locks.lock_logical,
            unlock=typed.locks.unlock_logical,
            view=typed.messages.view,
            by_key=typed.messages.by_key,
        ),
        pulls=broker.pulls,
        send_back=typed.send_backs.checked,
        sends=broker.sends,
        commit_all=context.commit_all,
        commit_offset=context.commit_beside,
        count_failed=context.statistics.put_failed,
        store=context.store,
    )
