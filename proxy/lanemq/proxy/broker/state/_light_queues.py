"""The limits of light queues, which messages create by naming them in INNER_MULTI_DISPATCH.

A light queue costs as much as any queue, and nothing but the deletion of its topic ends it. So a
message names some of them at most, and clients create new ones only up to ``maxLmqConsumeQueueNum``
and up to the share of their address. What a message waits for (a delay, a timer, its transaction)
counts when it is sent: what was taken reaches its light queues when it is due. A transaction that
is rolled back, or put aside, gives back the places that nothing else has come to or waits for.

Source: RocketMQ 4.9.8, DefaultMessageStore.isLmqConsumeQueueNumExceeded.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple, final

from lanemq.storage import LIGHT_QUEUES_MAX, Put, Store, light_queues
from lanemq.wire import LMQ_PREFIX, Refused, ResponseCode, SystemTopic
from lanemq.wire.message import Property

from ...net._loop_watch import asking_host
from ...net.limits._quotas import HOST_SHARE
from ._creations import Creations


@final
class _Unwritten(NamedTuple):
    """A message for light queues that is not in the log yet."""

    put: Put
    names: list[str]
    """The light queues that it is for."""
    new: set[str]
    """Those of them that it creates."""
    is_half: bool
    """True if it is for them once its transaction is committed."""


@final
class LightQueues:
    """The light queues of a broker, with those that messages which wait will create.

    Raises ``Refused`` for sends of clients alone; the broker's own work has no bounds.
    """

    def __init__(self, store: Store, most: int) -> None:
        self._store = store
        self._check_target = store.check_target
        self._unwritten: list[_Unwritten] = []
        self._halves: dict[str, int] = {}
        """Light queues that nothing but half messages will create -> the number of these."""
        self._first_half = store.bounds(SystemTopic.TRANSACTION_HALF, 0)[1]
        """Offset of the first half message that may be in ``_halves``."""
        self._is_on = store.config.multi_dispatch
        self._names = {topic for topic, _ in store.queues() if topic.startswith(LMQ_PREFIX)}
        self._creations = Creations(
            "light queue",
            self._names.__len__,
            asking_host,
            most=most,
            share=HOST_SHARE,
            way_on="raise maxLmqConsumeQueueNum, or delete some (deleteTopic)",
        )

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def check_number(self, names: Collection[str]) -> None:
        """Raise ``Refused`` (MESSAGE_ILLEGAL) for more light queues than a message may name.

        Without the settings for light queues it is in none, and may name what it likes.
        """
        if self._is_on and len(names) > LIGHT_QUEUES_MAX:
            remark = (
                f"the message names {len(names)} light queues in {Property.INNER_MULTI_DISPATCH}, "
                f"at most {LIGHT_QUEUES_MAX} are allowed: send several messages"
            )
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)

    def put(
        self,
        topic: str,
        properties: bytes,
        put: Callable[[], Put],
        *,
        is_new: bool,
        is_half: bool = False,
    ) -> Put:
        """Put a message for ``topic`` that may go into the light queues that its properties name,
        and count those that are new. What comes to a retry topic goes into none: it is in them
        already. One that ``is_half`` may still be ``given_up``.

        Raises ``Refused``: MESSAGE_ILLEGAL for too many of one message, SYSTEM_BUSY beyond those
        of all messages or the share of the client's address; one that is not new was taken within
        the limits of its time. Raises ``MessageIllegal`` for a name that no queue can have, and as
        ``put``. A message that is not stored takes no place.
        """
        if not self._is_on:
            return put()
        names = light_queues(topic, properties)
        new = self._admitted(names, is_new=is_new)
        try:
            stored = put()
        except BaseException:
            self._give_back(new)
            raise
        if names:
            self._unwritten.append(_Unwritten(stored, names, new, is_half))
        return stored

    def finished(self) -> None:
        """Give back the places of messages that could not be written; all others are in the log."""
        if self._unwritten:
            unwritten, self._unwritten = self._unwritten, []
            for one in unwritten:
                if self._store.max_position < one.put.end:
                    self._give_back(one.new)
                else:
                    self._written(one)

    def _written(self, one: _Unwritten) -> None:
        for name in _places(one.names):
            if not one.is_half:
                self._halves.pop(name, None)
            elif name in one.new or name in self._halves:
                self._halves[name] = self._halves.get(name, 0) + 1

    def given_up(self, topic: str, properties: bytes, origin: int) -> None:
        """Give back the places of a half message for ``topic`` that will not be committed here,
        once the log says so; ``origin`` is its first offset in the half queue."""
        if not self._is_on or origin < self._first_half:
            return
        for name in _places(light_queues(topic, properties)):
            left = self._halves.get(name, 0) - 1
            if left > 0:
                self._halves[name] = left
            elif left == 0:
                self.removed(name)

    def _admitted(self, names: list[str], *, is_new: bool) -> set[str]:
        if is_new and asking_host() is not None:
            self.check_number(names)
        new = {name for name in _places(names) if name not in self._names}
        if new and is_new:
            for name in new:
                self._check_target(name, 0)
            self._creations.require_room(len(new))
            for name in new:
                self._creations.created(name)
        self._names |= new
        return new

    def _give_back(self, names: set[str]) -> None:
        for name in names:
            self.removed(name)

    def removed(self, topic: str) -> None:
        """Forget the light queue of a topic that was deleted."""
        self._names.discard(topic)
        self._halves.pop(topic, None)
        self._creations.removed(topic)


def _places(names: list[str]) -> set[str]:
    """Return the light queues that a message goes into which names these."""
    return set(names[:LIGHT_QUEUES_MAX])
