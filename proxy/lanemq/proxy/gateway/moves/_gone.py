"""Requests at the port of a drained broker that is no longer there.

Its queues have moved on, and requests for them go to the brokers that have them. Of the rest the
proxy answers what clients need to go on, and refuses what only that broker had.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame, request

from ...net._dispatch import Outcome
from ...net._session import Session
from ..order import EMPTY, QueueOrders, heartbeat_groups
from ._stands import Stands

Code = RequestCode
ASK_S: Final = 2.5
_ASKED: Final = frozenset({Code.GET_CONSUMER_LIST_BY_GROUP, Code.CHECK_CLIENT_CONFIG})
_NOTHING: Final[Mapping[int, bytes]] = {
    **EMPTY,
    Code.GET_TOPIC_STATS_INFO: b'{"offsetTable":{}}',
}
_GROUPS: Final = "groups at a broker that is gone"


@final
class GoneRequests:
    """The requests of all clients at one port."""

    def __init__(
        self,
        name: str,
        stands: Stands,
        orders: QueueOrders,
        client: RemotingClient,
        address: Callable[[str], str | None],
    ) -> None:
        self._name = name
        self._stands = stands
        self._orders = orders
        self._client = client
        self._address = address

    def take(self, frame: Frame, session: Session) -> Outcome:
        """Answer a request that is for no moved queue. Raises ``Refused``."""
        code = frame.code
        if code == Code.HEART_BEAT:
            _note_groups(heartbeat_groups(frame), len(frame.body), session)
            # Without fields a client of 5.x names all its topics in the next one, too.
            return None if frame.flag & FLAG_ONEWAY else frame.reply()
        if code in _NOTHING:
            return None if frame.flag & FLAG_ONEWAY else frame.reply(body=_NOTHING[code])
        if code == Code.QUERY_MESSAGE:
            remark = f"the messages of {self._name} are gone with it"
            return frame.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        if code in _ASKED:
            return self._ask(frame, self._broker_of(frame, session))
        raise Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"broker {self._name} is drained and gone: request {code} is for what only it had",
        )

    def _broker_of(self, frame: Frame, session: Session) -> str:
        """Return a broker at which all members of a group are known: one with an open end of a
        queue of its topics that was here."""
        groups: Mapping[str, Sequence[str]] = session.attributes.get(_GROUPS, ({}, 0))[0]
        for topic in groups.get(frame.fields.get("consumerGroup", ""), ()):
            order = self._orders.of(topic)
            for moved in () if order is None else order.moved:
                if moved.place[0] == self._name:
                    return moved.last.broker
        stand = self._stands.of(self._name)
        return self._name if stand is None else stand.at

    async def _ask(self, frame: Frame, broker: str) -> Frame:
        """Raises ``Refused``."""
        address = self._address(broker)
        if address is None:
            remark = f"broker {broker}, which has queues of {self._name} now, is not there"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        fields = {name: value for name, value in frame.fields.items() if name == "consumerGroup"}
        asked = request(RequestCode(frame.code), fields, frame.body)
        try:
            answer = await self._client.call(address, asked, ASK_S)
        except RefusedByBroker as error:
            raise Refused(error.code, error.remark or "") from error
        except LanemqError as error:
            remark = f"{broker}: {error}"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        return frame.reply(body=answer.body)


def _note_groups(groups: Mapping[str, Sequence[str]], size_bytes: int, session: Session) -> None:
    """Keep the groups of a client's heartbeat, for which it is charged."""
    _, before_bytes = session.attributes.get(_GROUPS, ({}, 0))
    session.attributes[_GROUPS] = groups, size_bytes
    session.account.add(size_bytes - before_bytes)
