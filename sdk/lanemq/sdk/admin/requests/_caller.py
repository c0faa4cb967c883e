"""Administrative requests to single servers, with typed headers."""

from collections.abc import Callable, Mapping, Sequence

from lanemq.wire import LocalProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import Header

from ..._errors import BrokerUnreachable, RefusedByBroker, RequestTimedOut, WrongValue
from ...net._remoting import RemotingClient

SUCCESS = (ResponseCode.SUCCESS,)


class Caller:
    """Sends requests for ``AdminClient``; holds its name servers and its time-out."""

    def __init__(
        self, client: RemotingClient, name_servers: Sequence[str], *, timeout_s: float
    ) -> None:
        self._client = client
        self.name_servers = tuple(name_servers)
        """Addresses, ``host:port``, in the order in which they are asked."""
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
        try:
            sent = {**(header.to_fields() if header is not None else {}), **(fields or {})}
            data = body() if callable(body) else body
        except (LocalProtocolError, UnicodeEncodeError) as error:
            raise WrongValue(f"{code.name} cannot be sent: {error}") from error
        frame = request(code, sent, body=data)
        return await self._client.call(address, frame, timeout_s or self.timeout_s, accept=accept)

    async def ask_name_server(
        self,
        code: RequestCode,
        header: Header | None = None,
    ) -> Frame:
        """Ask the name servers in turn, the next one only where one cannot be reached."""
        error: BrokerUnreachable | RequestTimedOut | None = None
        for address in self.name_servers:
            try:
                return await self.ask(address, code, header)
            except (BrokerUnreachable, RequestTimedOut) as unreachable:
                error = unreachable
        assert error is not None, "open_admin refuses an empty list of name servers"
        raise error

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
