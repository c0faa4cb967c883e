"""The name servers of the cluster, as a proxy asks them.

Where ``upstream`` names a proxy whose upstream is this one in turn, a question would go round
between the two for ever. A proxy's own questions for the cluster carry the ids of the proxies that
they have passed; once one of them comes back, everything else is refused with that reason.
"""

import secrets
from collections.abc import Sequence
from typing import Final, final

from msgspec.structs import replace

from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame, request

from ..sessions.values._shared import ANY_CODE
from .rewrites import with_fields

ASK_S: Final = 3.0
LOOK_FIELD: Final = "lanemqProxyLook"
"""A field of proxies' own questions for the cluster: the ids of those that it has passed."""
IDS_MAX: Final = 16
ID_BYTES: Final = 8


@final
class NameServers:
    """The name servers; ``own_name`` is the address of this proxy."""

    def __init__(self, client: RemotingClient, addresses: Sequence[str], *, own_name: str) -> None:
        self._client = client
        self._addresses = list(addresses)
        self._own_name = own_name
        self._id = secrets.token_hex(ID_BYTES)
        self._is_circular = self._came_back = False
        self.why_unanswered = "no name server has answered yet"
        """The reason why no name server answers; empty while one does."""

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses; the first is asked before the others."""
        return self._addresses

    async def look(self) -> Frame:
        """Ask for the brokers of the cluster. Raises ``Refused``, also for a refusal."""
        self._came_back = False
        try:
            look = request(RequestCode.GET_BROKER_CLUSTER_INFO, {LOOK_FIELD: self._id})
            answer = await self._ask(look)
        finally:
            self._is_circular = self._came_back
        if answer.code != ResponseCode.SUCCESS:
            self.why_unanswered = answer.remark or f"name servers answer with code {answer.code}"
            raise Refused(answer.code, self.why_unanswered)
        return answer

    async def pass_look(self, frame: Frame, ids: str) -> Frame:
        """Pass on the question of another proxy for the cluster, which came by those of ``ids``.

        Raises ``Refused`` for one that has been here, and for one that was at too many.
        """
        if self._id in ids.split(",", IDS_MAX):
            self._is_circular = self._came_back = True
            self._refuse_circle()
        if len(ids) > IDS_MAX * (2 * ID_BYTES + 1):
            remark = f"more than {IDS_MAX} proxies, each of which is the next one's upstream"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return await self._ask(with_fields(frame, {LOOK_FIELD: f"{ids},{self._id}"}))

    async def ask(self, frame: Frame) -> Frame:
        """Ask a name server: the one that answered last, then the others. Raises ``Refused``."""
        if self._is_circular:
            self._refuse_circle()
        return await self._ask(frame)

    async def ask_all(self, frame: Frame) -> Frame:
        """Ask all name servers, until one refuses; returns the last answer. Raises ``Refused``."""
        if self._is_circular:
            self._refuse_circle()
        found: Frame | None = None
        for server in tuple(self._addresses):  # others change the order meanwhile
            found = await self._call(server, frame)
            if found.code != ResponseCode.SUCCESS:
                break
        assert found is not None, "there is a name server"
        return found

    def _refuse_circle(self) -> None:
        self.why_unanswered = (
            f"upstream of the proxy {self._own_name} leads back to it: it names a proxy, whose "
            "upstream is this one in turn, in place of the cluster's name servers"
        )
        raise Refused(ResponseCode.SYSTEM_ERROR, self.why_unanswered)

    async def _ask(self, frame: Frame) -> Frame:
        error: Refused | None = None
        for server in tuple(self._addresses):
            try:
                answer = await self._call(server, frame)
            except Refused as why:
                error = why
                # The next question begins with another one.
                self._addresses.remove(server)
                self._addresses.append(server)
                continue
            if answer.code != ResponseCode.SYSTEM_ERROR:  # a proxy's whose upstream is silent
                self.why_unanswered = ""
            return answer
        assert error is not None, "there is a name server"
        self.why_unanswered = error.remark
        raise error

    async def _call(self, server: str, frame: Frame) -> Frame:
        # To a client that wants no answer none is sent, but the proxy has to know that it came.
        if frame.is_oneway:
            frame = replace(frame, flag=frame.flag & ~FLAG_ONEWAY)
        try:
            return await self._client.call(server, frame, ASK_S, accept=ANY_CODE)
        except LanemqError as error:
            remark = f"name server {server}: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
