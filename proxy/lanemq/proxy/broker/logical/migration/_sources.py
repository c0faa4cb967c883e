"""Requests of a migration's destination to its source, or to others where that is away.

The source knows what the migration is: its number, and the progress of the groups. Tools carry
both from the one to the other, if they know of them.
"""

from collections.abc import Mapping
from typing import final

from lanemq.local import get_logger
from lanemq.wire import Refused, RequestCode
from lanemq.wire.logical import Chain, MigrateLogicalQueue, Segment

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._refusals import refusal
from ...cluster._peers import Peers
from ..state._progress import LogicalProgress
from ..state._view import LogicalView

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
class Sources:
    """The sources of migrations to one broker."""

    def __init__(
        self, *, logical_progress: LogicalProgress, peers: Peers, view: LogicalView
    ) -> None:
        self._logical_progress = logical_progress
        self._peers = peers
        self._view = view

    async def as_prepared(
        self, mapping: TopicMapping, source: Segment, target: Segment
    ) -> tuple[Segment, Mapping[str, int]]:
        """Return a destination with the number that its source gave, and the groups' progress.

        Tools that do not know of them carry neither. Raises ``Refused`` where the source does not
        say it: nothing proves then that the migration was not called off.
        """
        if mapping.is_own(source):
            known = mapping.find(target.key)
            number = known.migration if known is not None else None
            return target.with_migration(number), self._logical_progress.of(mapping, source)
        try:
            said = await self._ask(source, target)
        except Refused as error:
            raise refusal(
                f"{source.broker_name} does not say that the migration was not called off "
                f"({error.remark}): try again when it answers, or give the offset (-fd)"
            ) from error
        return target.with_migration(_number(said)), (said and said.progress) or {}

    async def progress(
        self, mapping: TopicMapping, source: Segment | None, target: Segment
    ) -> Mapping[str, int]:
        """Return the groups' progress for a destination whose commit carries none.

        That of a source that does not answer cannot be had. It counts again when it does.
        """
        if source is None or mapping.is_own(source):
            return {} if source is None else self._logical_progress.of(mapping, source)
        if not source.is_sealed:
            return {}
        try:
            said = await self._ask(source, target)
        except Refused as error:
            LOGGER.warning("%s opens without the progress of its groups: %s", target, error.remark)
            return {}
        return (said and said.progress) or {}

    async def _ask(self, source: Segment, target: Segment) -> MigrateLogicalQueue | None:
        """Let the source prepare the migration; if it has already, it answers as before."""
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE
        return await self._view.ask_step(code, source, MigrateLogicalQueue(source, target))

    async def gone_past(
        self, source: Segment | None, target: Segment, *, is_gone: bool
    ) -> tuple[Segment | None, int, int]:
        """Work out an unsealed source as well as anyone knows it; return it, its possible end, and
        the number of the last migration.

        An operator gives the offset then, because the source's broker is down. Raises ``Refused``
        where it is not: a segment that still takes messages cannot be superseded. Unless the
        operator says that it ``is_gone``, so it is where a name server lists it: it may be alive,
        and cut off from here.
        """
        topic, index = target.topic, target.logical_index
        chain = (await self._view.of(topic)).get(index) or Chain(index)
        if source is None:
            source = chain.normal
        known_end, last = chain.known_end, chain.last_migration
        if source is None or source.broker_name == target.broker_name:
            return source, known_end, last
        try:
            queues = await self._view.account_of(source, topic)
        except Refused as error:
            if not is_gone and await self._peers.is_listed(source.broker_name):
                raise refusal(
                    f"{source.broker_name} does not answer, but a name server lists it, so it may "
                    "take messages: say that it is gone for good (--sourceIsGone)"
                ) from error
            LOGGER.warning("%s is taken for lost: %s", source, error.remark)
            return source, known_end, last
        account = queues.get(index) if queues is not None else None
        now = account.find(source.key) if account is not None else None
        if now is None or account is None:
            return source, known_end, last
        if now.is_writable:
            raise refusal(f"message queue {now.queue_id} of {now.broker_name} is up and not sealed")
        return now, max(known_end, account.known_end), max(last, account.last_migration)


def _number(said: MigrateLogicalQueue | None) -> int | None:
    """Return the number of a prepared migration; None from brokers that know of none."""
    prepared_ = said.destination if said is not None else None
    return prepared_.migration if prepared_ is not None else None
