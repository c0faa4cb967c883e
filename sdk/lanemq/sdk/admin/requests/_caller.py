"""Administrative requests to single servers, with typed headers."""

from collections.abc import Callable, Mapping, Sequence

from lanemq.wire import LocalProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import Header

from ..._errors import RefusedByBroker, WrongValue
from ...net._name_servers import NameServers
from ...net._remoting import RemotingClient

SUCCESS = (ResponseCode.SUCCESS,)


class Caller:
    """Sends requests for ``AdminClient``; holds its name servers and its time-out."""

    def __init__(
        self, client: RemotingClient, name_servers: Sequence[str], *, timeout_s: float
    ) -> None:
        self._client = client
        self.name_servers = tuple(name_servers)
        """Addresses, ``host:port``."""
        self._servers = NameServers(client, self.name_servers, timeout_s=timeout_s)
        self.timeout_s = timeout_s

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        body: bytes | Callable[[], bytes] = b"",
        accept: Sequence[int] = SUCCESS,
        timeout_s: float | None = None,
    ) -> Frame:
        """Send one request to ``address`` and return its answer.

        Raises ``RefusedByBroker`` for an answer whose code is not in ``accept``,
        ``BrokerUnreachable`` and ``RequestTimedOut``; ``WrongValue`` for what has no encoding:
        a function as ``body`` is called for it. ``fields`` are sent with those of the header.
        """
        frame = _request(code, header, fields, body)
        return await self._client.call(address, frame, timeout_s or self.timeout_s, accept=accept)

    async def ask_name_server(
        self,
        code: RequestCode,
        header: Header | None = None,
    ) -> Frame:
        """Ask the name server that answered last, the next one only where it does not answer."""
        return await self._servers.call(_request(code, header))

    async def ask_every_name_server(
        self, code: RequestCode, header: Header, *, may_refuse: ResponseCode | None = None
    ) -> dict[str, Frame]:
        """Ask all name servers, one after another: address -> answer. Raises as ``ask``.

        A refusal with the code ``may_refuse`` is raised only if every name server refuses so.
        """
        answers: dict[str, Frame] = {}
        refusal: RefusedByBroker | None = None
        for address in self.name_servers:
            try:
                answers[address] = await self.ask(address, code, header)
            except RefusedByBroker as error:
                if error.code != may_refuse:
                    raise
                refusal = error
        if refusal is not None and not answers:
            raise refusal
        return answers


def _request(
    code: RequestCode,
    header: Header | None,
    fields: Mapping[str, str] | None = None,
    body: bytes | Callable[[], bytes] = b"",
) -> Frame:
    try:
        sent = {**(header.to_fields() if header is not None else {}), **(fields or {})}
        data = body() if callable(body) else body
    except (LocalProtocolError, UnicodeEncodeError) as error:
        raise WrongValue(f"{code.name} cannot be sent: {error}") from error
    return request(code, sent, body=data)
