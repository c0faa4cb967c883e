"""Generated from lanemq.sdk.admin by sdk/tools/generate_faces.py."""

from collections.abc import Container
from typing import final

from lanemq.wire import LONG_MAX
from lanemq.wire.bodies import ConsumerConnection, ConsumeStats, TopicStatsTable
from lanemq.wire.message import StoredMessage

from ..._options import ClientOptions
from ...admin import _client as _core_client
from ...admin import _dead_letters as _core_dead_letters
from ...admin import _reset as _core_reset
from ...admin import _tracks as _core_tracks
from ...admin._dead_letters import DeadLetter
from ...admin._reset import ResetOffsets
from ...admin._tracks import MessageTrack
from .._bridge import Bridge
from ._consumers import ConsumerRequests, MessageRequests
from ._servers import LogicalQueueOperations


@final
class AdminClient(LogicalQueueOperations, ConsumerRequests, MessageRequests):
    """Administers a cluster, of lanemq or of Apache RocketMQ. Made by ``open_admin``."""

    def __init__(self, core: _core_client.AdminClient, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.name_servers: tuple[str, ...] = core.name_servers
        """The addresses of the name servers. One that answers is asked until it fails."""
        self.client_options: ClientOptions = core.client_options
        """Options for producers and consumers of the same cluster: the same credentials and TLS."""

    async def close(self) -> None:
        """Close this client as the end of its `async with` block does; a repeat is harmless."""
        await self._bridge.close()

    async def broker_name(self, address: str) -> str:
        """Return the name under which ``address`` is registered. Raises ``LanemqError``."""
        return await self._bridge.call(self._core.broker_name, address)

    async def address_of(self, broker_name: str) -> str:
        """Return an address of the broker ``broker_name``. Raises ``LanemqError``."""
        return await self._bridge.call(self._core.address_of, broker_name)

    async def add_order_config(self, topic: str, value: str, *, replace: bool) -> str:
        """Store which brokers keep the order of ``topic``, as ``broker:queues;broker:queues``.

        Without ``replace`` the brokers of ``value`` join those that are stored already.
        Returns what is stored now.
        """
        return await self._bridge.call(self._core.add_order_config, topic, value, replace=replace)

    async def topic_status(self, topic: str) -> TopicStatsTable:
        """Return bounds and last write of every queue of ``topic``, on all its brokers."""
        return await self._bridge.call(self._core.topic_status, topic)

    async def progress(self, group: str, *, topic: str | None = None) -> ConsumeStats:
        """Return the progress of ``group``, on all brokers of its retry topic.

        Of logical queues, those of ``topic``, or of all topics that the group has read.
        Raises ``NoRoute`` for a group that no broker has ever seen.
        """
        return await self._bridge.call(self._core.progress, group, topic=topic)

    async def connections(self, group: str) -> ConsumerConnection | None:
        """Return the connected members of ``group``, None without any."""
        return await self._bridge.call(self._core.connections, group)

    async def message(self, message_id: str, *, topic: str | None = None) -> StoredMessage | None:
        """Find a message by its offset id or, where ``topic`` is known, by its unique key."""
        return await self._bridge.call(self._core.message, message_id, topic=topic)

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> list[StoredMessage]:
        """Return the messages of ``topic`` that carry ``key``, from all its brokers."""
        return await self._bridge.call(
            self._core.messages_by_key,
            topic,
            key,
            max_count=max_count,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    async def messages_by_unique_key(self, topic: str, key: str) -> list[StoredMessage]:
        """Return the messages with one unique key, the first stored first.

        There are several where a producer sent again after a time-out, or a consumer gave the
        message back.
        """
        return await self._bridge.call(self._core.messages_by_unique_key, topic, key)


async def dead_letters_of(
    admin: AdminClient,
    group: str,
    *,
    begin_ms: int = 0,
    end_ms: int = LONG_MAX,
    max_count: int = 1000,
) -> list[DeadLetter]:
    """Return the dead letters of ``group``, at most ``max_count``, queue by queue from the oldest.

    Only those that were stored from ``begin_ms`` to ``end_ms``, milliseconds since 1970. Raises
    ``NoRoute`` for a group that has none, ``WrongUse`` where they may not be read.
    """
    return await admin._bridge.call(
        _core_dead_letters.dead_letters_of,
        admin._core,
        group,
        begin_ms=begin_ms,
        end_ms=end_ms,
        max_count=max_count,
    )


async def resend_dead_letters(
    admin: AdminClient,
    group: str,
    *,
    message_ids: Container[str] | None = None,
    begin_ms: int = 0,
    end_ms: int = LONG_MAX,
) -> list[str]:
    """Send dead letters of ``group`` to it again; return their message ids.

    They go to the group's retry topic, so that no other group gets them, and count as new:
    all their deliveries are before them. Chosen are those with ``message_ids`` (None: all) that
    were stored from ``begin_ms`` to ``end_ms``, of those that are there at the call.

    They stay among the dead letters as well: a second call sends them again. Raises as
    ``dead_letters_of``, and what keeps a broker from taking one, with a note of how many were
    sent before it.
    """
    return await admin._bridge.call(
        _core_dead_letters.resend_dead_letters,
        admin._core,
        group,
        message_ids=message_ids,
        begin_ms=begin_ms,
        end_ms=end_ms,
    )


async def reset_offsets_by_time(
    admin: AdminClient, group: str, topic: str, timestamp_ms: int, *, force: bool = True
) -> ResetOffsets:
    """Make ``group`` go to ``timestamp_ms`` in ``topic`` on all its brokers; -1 is the end.

    Without ``force`` no queue moves forward. Where nobody of the group is connected, the
    offsets in the broker are changed, by the broker or by this client, and the group's stages
    begin again from them; a consumer of 5.x brokers is reset there in any case.
    Raises ``NoRoute``, and ``RefusedByBroker`` also where the group has no offset, or has members
    that are connected and have not committed one in each queue yet.
    """
    return await admin._bridge.call(
        _core_reset.reset_offsets_by_time, admin._core, group, topic, timestamp_ms, force=force
    )


async def tracks_of(admin: AdminClient, message: StoredMessage) -> list[MessageTrack]:
    """Return for each group that reads the topic of ``message`` whether it has consumed it.

    Raises ``NoRoute`` where the topic is gone.
    """
    return await admin._bridge.call(_core_tracks.tracks_of, admin._core, message)
