"""The parts of one broker that look after its logical queues, beside those of its context."""

from typing import final

from ...net._dispatch import Handlers
from ..context._context import BrokerContext
from .migration import (
    _growth,
    _indices,
    _mapping,
    _migrate,
    _seal,
    _superseded_messages,
)
from .migration._deleted_topics import DeletedTopics
from .migration._indices import LogicalIndices
from .migration._migrate import Migrations
from .migration._outcomes import Outcomes
from .migration._reconcile import Reconciler
from .migration._retention import LogicalRetention
from .migration._seal import Seals
from .migration._sources import Sources
from .migration._start import StartCheck
from .migration._superseded_messages import SupersededMessages
from .migration._superseded_segments import SupersededSegments
from .state._view import LogicalView
from .traffic._delivery import Deliveries


@final
class LogicalParts:
    """The parts, in the order in which they need each other; their requests are registered."""

    def __init__(
        self, handlers: Handlers, broker: BrokerContext, *, deliveries: Deliveries
    ) -> None:
        logical, logical_progress, peers = broker.logical, broker.logical_progress, broker.peers
        store = broker.store
        self.view = view = LogicalView(logical=logical, peers=peers)
        seals = Seals(config=broker.config, logical=logical, store=store)
        migrations = Migrations(
            logical=logical,
            logical_progress=logical_progress,
            now_ms=broker.now_ms,
            seals=seals,
            sources=Sources(logical_progress=logical_progress, peers=peers, view=view),
            view=view,
        )
        superseded = SupersededMessages(
            deliveries=deliveries,
            logical=logical,
            peers=peers,
            store=store,
            store_host=broker.store_host,
        )
        indices = LogicalIndices(logical=logical, topics=store.tables.topics)
        self.reconciler = Reconciler(
            config=broker.config,
            deleted_topics=DeletedTopics.of(broker, indices),
            logical=logical,
            migrations=migrations,
            outcomes=Outcomes(logical=logical, logical_progress=logical_progress, view=view),
            superseded_segments=SupersededSegments(
                logical=logical,
                logical_progress=logical_progress,
                seals=seals,
                superseded=superseded,
                view=view,
            ),
            view=view,
        )
        self.retention = LogicalRetention.of(broker)
        self.start = StartCheck(logical, self.reconciler.view)
        broker.on_topic_deleted.append(indices.forget)
        logical.forgotten, logical.look_again = indices.keep, self.reconciler.look
        _growth.register(handlers, broker, view=view)
        _indices.register(handlers, indices)
        _mapping.register(handlers, broker, seals=seals)
        _migrate.register(handlers, broker, migrations=migrations)
        _seal.register(handlers, broker, seals=seals)
        _superseded_messages.register(handlers, superseded)
