"""Requests of clients at an added broker, as the brokers of the cluster behind it get them.

Which broker is behind it depends on the topic. A request names its topic, or a position in a log,
whose tag says which broker gave it out (``_tags``), or a group, whose topics are in the client's
heartbeats. A request that names none of these passes if one broker alone is behind, and is refused
otherwise. What concerns a whole broker, as statistics of groups do, belongs to the port of the
broker itself, where clients and tools go with it as well.

Source: RocketMQ 4.9.8 and 5.3.3, the request headers, MQClientInstance, DefaultMQAdminExtImpl.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import CheckClientRequestBody, HeartbeatData, QueryAssignmentBody
from lanemq.wire.frame import Frame

from ...net._dispatch import check_body
from ...net._turns import Steps, all_steps, step_by_step
from ..rewrites import with_fields, with_id_position
from ._bodies import queues_in
from ._order import ADDED_PREFIX, Run, SeenQueue, added_number
from ._orders import QueueOrders
from ._port import LONG_BYTES
from ._requests import (
    BODIES,
    BROKER_FIELDS,
    BY_TOPIC,
    EMPTY,
    FIELDS,
    IDS,
    LONG,
    NO_GROUPS,
    PLAIN,
    POSITIONS,
    SENDS,
)
from ._tags import broker_of

Code = RequestCode
_ID_DIGITS: Final = 11
_POSITION_DIGITS: Final = 19
_QUEUES_MAX: Final = 100  # of a body that are looked at in one turn of the loop

Groups = Mapping[str, Sequence[str]]
"""The groups of a client, with the topics of each."""


class Passed(NamedTuple):
    """A request for a broker of the cluster."""

    broker: str
    frame: Frame
    start: int = 0
    """The broker's number of the queue that clients see as 0; the answer counts from it."""


class Split(NamedTuple):
    """A request for several brokers of the cluster, whose answers are one for the client."""

    parts: tuple[Passed, ...]


@final
class AddedRequests:
    """The requests at the port of one added broker."""

    def __init__(self, orders: QueueOrders, name: str, rng: random.Random) -> None:
        number = added_number(name)
        assert number is not None, "the name of an added broker"
        self._orders = orders
        self._name = name
        self._number = number
        self._rng = rng

    @property
    def behind(self) -> list[str]:
        """The brokers of the cluster that are behind it in any topic."""
        return self._orders.behind_one(self._number)

    def request(self, frame: Frame, groups: Groups) -> Split | Passed | Frame:
        """Return a client's request as a broker gets it, or the answer to it.

        ``groups`` are those of the client. Raises ``Refused``: SERVICE_NOT_AVAILABLE, on which
        clients try another broker, for a queue that this proxy does not know yet;
        REQUEST_CODE_NOT_SUPPORTED for what the port of a broker itself is for; SYSTEM_ERROR for
        what cannot be read.
        """
        code, fields = frame.code, frame.fields
        names = FIELDS.get(code)
        if names is not None:
            return self._of_queue(frame, *names)
        if code == Code.INVOKE_BROKER_TO_RESET_OFFSET and self._names_queue(frame):
            return self._of_queue(frame, *LONG)
        if code in EMPTY:
            return frame.reply(body=EMPTY[code])
        if code == Code.QUERY_MESSAGE:
            remark = f"the messages of {self._name} are found at brokers {self._names()}"
            return frame.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        if code in BODIES:
            return all_steps(self._of_body(frame))
        if code in POSITIONS:
            return self._of_position(frame, POSITIONS[code])
        if code in IDS:
            return self._of_id(frame, IDS[code])
        if code in BY_TOPIC:
            return self._named(self._run(fields.get("topic", "")).broker, frame)
        if code in {Code.QUERY_ASSIGNMENT, Code.CHECK_CLIENT_CONFIG}:
            return self._named(self._run(topic_of_body(frame)).broker, frame)
        if code == Code.GET_CONSUMER_LIST_BY_GROUP:
            return self._of_group(frame, groups.get(fields.get("consumerGroup", ""), ()))
        if code in PLAIN:
            return self._of_the_only_one(frame)
        raise self._elsewhere(frame)

    def is_long(self, frame: Frame) -> bool:
        """Return whether ``long_request`` is to make a request, since it takes its time."""
        return frame.code in BODIES and len(frame.body) > LONG_BYTES

    async def long_request(self, frame: Frame) -> Split | Passed | Frame:
        """Return what ``request`` does, in short turns. Raises as it does."""
        return await step_by_step(self._of_body(frame))

    def _of_body(self, frame: Frame) -> Steps[Split | Passed | Frame]:
        check_body(frame, is_json=True)
        parts = _Parts()
        for number, (broker, text) in enumerate(self._queues_in(frame)):
            parts.add(broker, text)
            if not (number + 1) % _QUEUES_MAX:
                yield None
        return self._of_parts(frame, parts)

    def _queues_in(self, frame: Frame) -> Iterator[tuple[str | None, bytes]]:
        """Iterate over the queues in a body by the names that brokers have; as ``queues_in``."""
        try:
            for broker, text in queues_in(frame.body, self._own):
                if broker is not None and (not broker or broker.startswith(ADDED_PREFIX)):
                    raise self._unknown("a queue that the request names")
                yield broker, text
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"request {frame.code}: {error}") from None

    def _of_parts(self, frame: Frame, parts: "_Parts") -> Split | Passed | Frame:
        passed = tuple(
            self._named(broker, replace(frame, body=body)) for broker, body in parts.bodies()
        )
        if not passed:
            return frame.reply(body=BODIES[frame.code])
        return passed[0] if len(passed) == 1 else Split(passed)

    def heartbeat(self, frame: Frame) -> tuple[Frame, dict[str, tuple[str, ...]]]:
        """Return a heartbeat as brokers get it, and the groups of the client in it.

        Raises ``Refused`` for one that cannot be read.
        """
        return replace(frame, body=NO_GROUPS), heartbeat_groups(frame)

    def _of_queue(self, frame: Frame, topic_field: str, id_field: str) -> Passed:
        topic = frame.fields.get(topic_field, "")
        run = self._run(topic)
        try:
            queue_id = int(frame.fields.get(id_field, "")[:_ID_DIGITS])
        except ValueError:
            remark = f"{id_field} of request {frame.code} is no number of a queue"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None
        if queue_id < 0 and frame.code in SENDS:
            queue_id = self._rng.randrange(run.count)
        if not 0 <= queue_id < run.count:
            raise self._unknown(f"queue {queue_id} of topic {topic!a}")
        own = {id_field: str(run.start + queue_id)}
        return self._named(run.broker, with_fields(frame, own), run.start)

    def _of_position(self, frame: Frame, field: str) -> Passed:
        text = frame.fields.get(field, "")
        if not text.isdecimal() or len(text) > _POSITION_DIGITS:
            remark = f"{field} of request {frame.code} is no place in a log"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        broker, position = broker_of(self._orders.behind, int(text))
        if broker is None:
            return self._of_the_only_one(frame)
        return self._named(broker, with_fields(frame, {field: str(position)}))

    def _of_id(self, frame: Frame, field: str) -> Passed:
        """Return a request that names a message by the id that clients know."""
        found: list[str] = []

        def own(position: int) -> int:
            broker, untagged = broker_of(self._orders.behind, position)
            found.extend([] if broker is None else [broker])
            return untagged

        text = with_id_position(frame.fields.get(field, ""), own)
        if not found:
            return self._of_the_only_one(frame)
        return self._named(found[0], with_fields(frame, {field: text}))

    def _of_group(self, frame: Frame, topics: Iterable[str]) -> Passed:
        """Return a request for the members of a group, who are all at the broker of each topic."""
        for topic in topics:
            order = self._orders.of(topic)
            run = None if order is None else order.run_at(self._number)
            if order is not None and run is not None:
                moved = order.moved_at(run.broker, run.start)  # its broker may be gone
                return self._named(run.broker if moved is None else moved.last.broker, frame)
        raise Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"no heartbeat over this connection names a topic of the group that has queues at "
            f"{self._name}: its members are known at brokers {self._names()}",
        )

    def _of_the_only_one(self, frame: Frame) -> Passed:
        behind = self.behind
        if len(behind) != 1:
            raise self._elsewhere(frame)
        return self._named(behind[0], frame)

    @staticmethod
    def _names_queue(frame: Frame) -> bool:
        return not frame.fields.get("queueId", "-1").startswith("-")

    def _named(self, broker: str, frame: Frame, start: int = 0) -> Passed:
        """Return a request that names the cluster's broker."""
        names = [one for one in BROKER_FIELDS if frame.fields.get(one) == self._name]
        named = with_fields(frame, dict.fromkeys(names, broker)) if names else frame
        return Passed(broker, named, start)

    def _run_of(self, topic: str) -> Run | None:
        order = self._orders.of(topic)
        return None if order is None else order.run_at(self._number)

    def _run(self, topic: str) -> Run:
        run = self._run_of(topic)
        if run is None:
            raise self._unknown(f"a queue of topic {topic!a}")
        return run

    def _own(self, topic: str, broker: str, queue_id: int) -> SeenQueue | None:
        """Return the broker's own queue for one that clients see here."""
        if broker != self._name:
            return None
        run = self._run(topic)
        if not 0 <= queue_id < run.count:
            return None
        return SeenQueue(run.broker, run.start + queue_id)

    def _names(self) -> str:
        return ", ".join(self.behind) or "of the cluster"

    def _elsewhere(self, frame: Frame) -> Refused:
        return Refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f"request {frame.code} is not for {self._name}, where clients see queues that brokers "
            f"have got later: ask that broker itself, of {self._names()}",
        )

    def _unknown(self, what: str) -> Refused:
        return Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"this proxy knows of no such queue at {self._name} yet: {what}",
        )


@final
class _Parts:
    """A body with a list of queues, divided among brokers."""

    def __init__(self) -> None:
        self._ends: list[bytes] = []
        self._texts: dict[str, list[bytes]] = {}

    def add(self, broker: str | None, text: bytes) -> None:
        """Take a piece, as ``queues_in`` yields it."""
        if broker is None:
            self._ends.append(text)
        else:
            self._texts.setdefault(broker, []).append(text)

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the brokers, each with the body that has its queues."""
        for broker, texts in self._texts.items():
            head, tail = self._ends
            yield broker, head + b",".join(texts) + tail


def heartbeat_groups(frame: Frame) -> dict[str, tuple[str, ...]]:
    """Return the groups in a heartbeat, each with its topics. Raises ``Refused``."""
    check_body(frame, is_json=True)
    try:
        groups = HeartbeatData.decode(frame.body).consumer_data_set
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"a heartbeat: {error}") from None
    return {
        one.group_name: tuple(each.topic for each in one.subscription_data_set) for one in groups
    }


def topic_of_body(frame: Frame) -> str:
    """Return the topic that a body names. Raises ``Refused``."""
    check_body(frame, is_json=True)
    try:
        if frame.code == Code.QUERY_ASSIGNMENT:
            return QueryAssignmentBody.decode(frame.body).topic
        subscription = CheckClientRequestBody.decode(frame.body).subscription_data
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"request {frame.code}: {error}") from None
    return "" if subscription is None else subscription.topic
