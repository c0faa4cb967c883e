"""Resets of groups' offsets in logical queues (222): each member is told in its own names.

Clients know a logical queue by its index, or as a queue of one of several brokers (ADR 017). The
first broker's name is in both: a queue named as the operator knows it may be another for a member.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from attrs import define

from lanemq.wire import Refused, RequestCode, ResponseCode, Version
from lanemq.wire.bodies import MessageQueue, ResetOffsetBody, SubscriptionGroupConfig
from lanemq.wire.frame import JAVA, Frame, request
from lanemq.wire.headers import ResetOffset
from lanemq.wire.logical import logical_broker, place_of
from lanemq.wire.message import StageRecord

from ....net._dispatch import Handler, Handlers, Outcome, typed
from ....net._session import Session
from ....net._turns import encode_beside, in_turns
from ....sessions.state._clients import ClientRegistry
from ....sessions.state._members import Client, ConsumerGroup
from ....sessions.state._stages import GroupStages
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ._offsets import Offsets
from ._progress import ListenerProgress

END: Final = -1
"""The time that means "behind everything"."""
_NUMBER: Final = "number of the logical broker"


def heard_at(number: int | None, heartbeat: Handler) -> Handler:
    """Make heartbeats note the listener's port at which their connection arrived."""

    def heard(frame: Frame, session: Session) -> Outcome:
        session.attributes[_NUMBER] = number
        return heartbeat(frame, session)

    return heard


def brokers_known_to(
    client: Client[Session], group: ConsumerGroup[Session], brokers: int
) -> int | None:
    """Return the number of brokers among which a member of ``group`` sees the queues of a topic.

    ``brokers`` is what older clients see, 1 is for those that go by index. None where it cannot
    be told: of a client of Java 5.0.0 that is not known at a listener of this process, and so
    either goes by index (5.0.0-PREVIEW) or, as any other, does not.
    """
    if brokers == 1 or client.knows_indices:
        return 1
    if client.version != Version.V5_0_0 or client.language != JAVA:
        return brokers
    ports = {
        member.session.attributes[_NUMBER]
        for member in group.clients.values()
        if member.client_id == client.client_id and _NUMBER in member.session.attributes
    }
    if ports - {None}:
        return brokers
    return 1 if ports else None


@final
@define(eq=False, kw_only=True, repr=False)
class Resets:
    """The handler of one port."""

    _clients: ClientRegistry[Session]
    _group: Callable[[str], SubscriptionGroupConfig | None]
    _offsets: Offsets
    _progress: ListenerProgress
    _queues: SeenQueues
    _stages: GroupStages

    async def reset(self, header: ResetOffset, frame: Frame, session: Session) -> Frame:
        """Tell the members of a group the offsets to continue at. Their commits then move the
        offsets."""
        queues = self._queues
        view = await queues.view(header.topic)
        group = self._clients.consumer_group(header.group)
        if group is None:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}"
            )
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        targets = {}
        async for index in in_turns(queues.seen(view)):
            target = await self._target(header, index)
            if target is not None:
                targets[index] = target
        await self._tell(session, group, header, targets, view.brokers)
        answer = {
            queues.queue_of(view, header.topic, index): target
            async for index, target in in_turns(targets.items())
        }
        body = await encode_beside(session, ResetOffsetBody(answer), len(answer))
        return frame.reply(body=body)

    async def _target(self, header: ResetOffset, index: int) -> int | None:
        """Find where a group is to go on in a queue; without force it does not go forward.

        None for a queue that stays as it is: nobody knows whether the target is ahead.
        """
        place = header.topic, index
        consumed = await self._progress.find(header.group, *place)
        if not header.is_force and consumed is None:
            return None
        if header.timestamp == END:
            target = await self._offsets.max_offset(*place)
        else:
            target = await self._offsets.offset_at(*place, header.timestamp, None)
        if not header.is_force and consumed is not None:
            target = min(target, consumed)
        if target != consumed:
            await self._restart_stages(header.group, *place, target)
        return target

    async def _tell(
        self,
        session: Session,
        group: ConsumerGroup[Session],
        header: ResetOffset,
        targets: Mapping[int, int],
        brokers: int,
    ) -> None:
        told = ResetOffset(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=False
        )
        notes: dict[int, Frame] = {}
        for client in tuple(group.clients.values()):
            known = brokers_known_to(client, group, brokers)
            if known is None:
                continue
            if known not in notes:
                body = ResetOffsetBody(
                    {
                        _named(header.topic, index, known): to
                        async for index, to in in_turns(targets.items())
                    }
                )
                notes[known] = request(
                    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                    told.to_fields(),
                    body=await encode_beside(session, body, len(targets)),
                )
            client.session.oneway(notes[known])

    async def _restart_stages(self, group: str, topic: str, index: int, offset: int) -> None:
        """Ask the brokers to count a group's stages again from its new offsets."""
        config = self._group(group)
        shadow = None if config is None else self._stages.shadow(config)
        if shadow is not None:
            record = StageRecord(offset, 0).pack()
            await self._progress.put_everywhere(shadow, topic, index, record)


def _named(topic: str, index: int, brokers: int) -> MessageQueue:
    number, queue_id = place_of(index, brokers)
    return MessageQueue(topic, logical_broker(number), queue_id)


def register(
    handlers: Handlers, listener: ListenerContext, offsets: Offsets, progress: ListenerProgress
) -> None:
    """Register request 222."""
    resets = Resets(
        clients=listener.host.clients,
        group=listener.host.group,
        offsets=offsets,
        progress=progress,
        queues=listener.queues,
        stages=listener.host.stages,
    )
    handlers.add(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, typed(ResetOffset, resets.reset))
