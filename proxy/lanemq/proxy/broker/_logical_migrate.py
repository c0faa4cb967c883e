"""The three steps of a migration, as tools ask for them (417, 418, 419).

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor; MigrateTopicLogicalQueueCommand, which asks
for them.
"""

import logging

from lanemq.wire import Frame, Refused, RequestCode
from lanemq.wire.logical import MigrateLogicalQueue, Segment, SegmentState

from .._dispatch import Handlers
from .._session import Session
from ..logical import (
    Migration,
    Move,
    Phase,
    TopicMapping,
    begin_prepare,
    committed,
    notified,
    prepared,
    refusal,
)
from ._context import BrokerContext
from ._logical_mapping import decoded, existing
from ._logical_seal import sealing
from ._logical_view import account_of, view_of

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

NOT_ENABLED = "topic not enable logical queue"


async def prepare(broker: BrokerContext, asked: Move) -> Move:
    """Seal the source, which goes on at the target from then on; see ``begin_prepare``.

    Raises ``Refused``; then the source is open, or another migration has it.
    """
    logical, topic, index = broker.logical, asked.source.topic, asked.source.logical_index
    name = "prepare", asked.source.key, asked.target.key
    async with logical.operation(topic, index, name):
        mapping = logical.mappings[topic]
        source, done = begin_prepare(mapping, asked)
        if done is not None:
            return done
        started_ms = broker.now_ms()
        await logical.note(Migration(source, asked.target, Phase.SEALING, started_ms))
        try:
            async with sealing(broker, source) as sealed:
                move = Move(sealed, asked.target)

                def change(mapping: TopicMapping) -> TopicMapping:
                    nonlocal move
                    changed, move = prepared(mapping, sealed, asked.target)
                    return changed

                await logical.change(topic, change)
        except BaseException:
            logical.journal.remove(topic, index)  # on the disk, it says that it never happened
            raise
        logical.note_expired(move.source)
        await logical.note(Migration(move.source, move.target, Phase.PREPARED, started_ms))
    LOGGER.info("%s goes on at %s", *move)
    return move


async def commit(broker: BrokerContext, asked: MigrateLogicalQueue) -> Segment:
    """Open the destination at its first logical offset. Raises ``Refused``; see ``committed``."""
    logical, target = broker.logical, asked.destination
    assert target is not None
    topic, index = target.topic, target.logical_index
    async with logical.operation(topic, index, ("commit", target.key)):
        source, known_end = asked.source, 0
        if source is None or not source.is_sealed:
            source, known_end = await _forced(broker, source, target)
        opened = target

        def change(mapping: TopicMapping) -> TopicMapping:
            nonlocal opened
            changed, opened = committed(mapping, source, target, known_end=known_end)
            return changed

        await logical.change(topic, change)
    LOGGER.info("%s is open", opened)
    return opened


async def _forced(
    broker: BrokerContext, source: Segment | None, target: Segment
) -> tuple[Segment | None, int]:
    """The source as well as anyone knows it, when nobody has sealed it; and the end it may have.

    An operator gives the offset then, because the source's broker is down. Raises ``Refused``
    where it is not: a segment that still takes messages cannot be gone past.
    """
    topic, index = target.topic, target.logical_index
    chain = (await view_of(broker, topic)).get(index)
    if source is None and chain is not None:
        source = chain.normal
    if source is None or source.broker_name == target.broker_name:
        return source, chain.known_end if chain is not None else 0
    known_end = chain.known_end if chain is not None else 0
    try:
        queues = await account_of(broker, source.broker_name, source.broker_address, topic)
    except Refused as error:
        LOGGER.warning("%s is taken for lost: %s", source, error.remark)
        return source, known_end
    account = queues.get(index) if queues is not None else None
    now = account.find(source.key) if account is not None else None
    if now is None or account is None:
        return source, known_end
    if now.is_writable:
        raise refusal(f"message queue {now.queue_id} of {now.broker_name} is up and not sealed")
    return now, max(known_end, account.known_end)


async def notify(broker: BrokerContext, asked: Move) -> None:
    """Hear of a migration, and complete what is left of it here."""
    logical, target = broker.logical, asked.target
    await logical.change(target.topic, lambda mapping: notified(mapping, asked))
    known = logical.mappings[target.topic].find(target.key)
    if known is not None and known.state is not SegmentState.WRITE_ONLY:
        await logical.strike(target.topic, target.logical_index)
    if SegmentState.EXPIRED in (asked.source.state, target.state):  # it may have been called off
        await logical.look_again(target.topic)


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Prepare to the source, commit to the destination, notify to all others."""
    logical = broker.logical

    def decoded_move(frame: Frame) -> MigrateLogicalQueue:
        asked = decoded(MigrateLogicalQueue, frame)
        if asked.destination is None:
            raise refusal("decode error")
        return asked

    def require_enabled(topic: str) -> None:
        existing(broker, topic)
        if logical.get(topic) is None:
            raise refusal(NOT_ENABLED)

    def move_of(frame: Frame) -> Move:
        asked = decoded_move(frame)
        if asked.source is None or asked.destination is None:
            raise refusal("decode error")
        return Move(asked.source, asked.destination)

    async def prepare_it(frame: Frame, session: Session) -> Frame:
        asked = move_of(frame)
        require_enabled(asked.source.topic)
        move = await prepare(broker, asked)
        await broker.announced()
        return frame.reply(body=MigrateLogicalQueue(move.source, move.target).encode())

    async def commit_it(frame: Frame, session: Session) -> Frame:
        asked = decoded_move(frame)
        assert asked.destination is not None
        require_enabled(asked.destination.topic)
        opened = await commit(broker, asked)
        await broker.announced()
        return frame.reply(body=MigrateLogicalQueue(asked.source, opened).encode())

    async def notify_it(frame: Frame, session: Session) -> Frame:
        asked = decoded_move(frame)
        assert asked.destination is not None
        require_enabled(asked.destination.topic)
        source = asked.source if asked.source is not None else asked.destination
        await notify(broker, Move(source, asked.destination))
        await broker.announced()
        return frame.reply()

    handlers.add(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE, prepare_it)
    handlers.add(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT, commit_it)
    handlers.add(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY, notify_it)
