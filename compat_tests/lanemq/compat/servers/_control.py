"""The harness's own requests to a cluster: is it up, where is a topic, create this topic.

One connection per question: rare, short, and with no state that a restarted server could
spoil.
"""

import json
import ssl
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import trio

from lanemq.wire import RequestCode, ResponseCode, fastjson
from lanemq.wire.frame import Frame, decode_frame, encode_frame, request

from .._errors import ServerFailed

QUESTION_S = 60.0
LOOK_S = 5.0
"""Seconds for a starting server to answer one question, which is then asked again."""
ROUTE_S = 60.0
FAILED = ResponseCode.SYSTEM_ERROR


class Control:
    """Questions to the cluster behind one name server (or a list ``a:1;b:2``: its first).

    With ``tls`` they are asked over TLS.
    """

    def __init__(self, name_server: str, *, tls: ssl.SSLContext | None = None) -> None:
        self.name_server = name_server.split(";")[0]
        self._tls = tls

    async def answers(self) -> bool:
        """Return whether the name server answers at all."""
        with trio.move_on_after(LOOK_S), suppress(OSError, ServerFailed):
            await self.ask(self.name_server, RequestCode.GET_BROKER_CLUSTER_INFO, {})
            return True
        return False

    async def listens(self) -> bool:
        """Return whether something takes connections at the name server's address."""
        with trio.move_on_after(LOOK_S), suppress(OSError):
            host, _, port = self.name_server.rpartition(":")
            await trio.aclose_forcefully(await trio.open_tcp_stream(host, int(port)))
            return True
        return False

    async def serves(self, topic: str, broker: str) -> bool:
        """Return whether the name server routes ``topic`` to the broker at that address."""
        with trio.move_on_after(LOOK_S), suppress(OSError, ServerFailed):
            return broker in await self.masters_of(topic)
        return False

    async def knows(self, broker: str) -> bool:
        """Return whether a broker at that address is registered."""
        with trio.move_on_after(LOOK_S), suppress(OSError, ServerFailed):
            return broker in await self.masters()
        return False

    async def masters_of(self, topic: str) -> list[str]:
        """Return the addresses of the masters a topic is on; none if it has no route."""
        reply = await self._told(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return []
        return _masters(_checked(reply, "route")["brokerDatas"])

    async def masters_for(self, topic: str) -> list[str]:
        """Return the addresses of the masters that a new topic is made at: all."""
        return await self.masters()

    async def masters(self) -> list[str]:
        """Return the addresses of all masters of the cluster."""
        reply = await self._told(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        return _masters(_checked(reply, "cluster info")["brokerAddrTable"].values())

    async def _told(self, code: int, fields: Mapping[str, str]) -> Frame:
        """Ask the name server, again for as long as it has an error of its own: a proxy's question
        to its name servers is given three seconds, and these may be busy."""
        why: str | None = "no answer"
        with trio.move_on_after(QUESTION_S):
            while (reply := await self.ask(self.name_server, code, fields)).code == FAILED:
                why = reply.remark
                await trio.sleep(0.1)
            return reply
        raise ServerFailed(f"{self.name_server} refused request {code} to the end: {why}")

    async def have_registered(self) -> None:
        """Have the broker at this address register with its name servers, if it takes requests.

        Brokers do so when their permission is set, here to what it is by default
        (``AdminBrokerProcessor.updateBrokerConfig``).
        """
        with trio.move_on_after(LOOK_S), suppress(OSError, ServerFailed):
            code = RequestCode.UPDATE_BROKER_CONFIG
            await self.ask(self.name_server, code, {}, b"brokerPermission=6\n")

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic on every master and wait until the name server routes it there."""
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        masters = await self.masters_for(topic)
        for address in masters:
            _accepted(await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields))
        await self.until_routed(topic, masters)

    async def until_routed(self, topic: str, masters: Collection[str] = ()) -> None:
        """Wait until the name server routes ``topic`` to all of ``masters``, or to any broker.

        Apache 4.9.7 registers a topic that a send or a dead letter creates with a oneway request
        (``TopicConfigManager``): the sender may have its answer before the route is there.

        Raises ``ServerFailed`` after ``ROUTE_S``.
        """
        with trio.move_on_after(ROUTE_S):
            # The name server tells nobody about a new route: asking again is the only way.
            while True:
                routed = await self.masters_of(topic)
                if routed and set(masters) <= set(routed):
                    return
                await trio.sleep(0.05)
        raise ServerFailed(f"no route for topic {topic} within {ROUTE_S:g} s")

    async def create_group(self, group: str, *, retry_max_times: int) -> None:
        """Create a consumer group on every master; that many retries, then its dead letters."""
        config = {
            "groupName": group,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": True,
            "retryQueueNums": 1,
            "retryMaxTimes": retry_max_times,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
        }
        body = json.dumps(config).encode()
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        for address in await self.masters():
            _accepted(await self.ask(address, code, {}, body))

    async def ask(
        self, address: str, code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> Frame:
        """Send one request and return the answer, of any code.

        Raises ``ServerFailed`` without an answer, ``OSError`` without a connection.
        """
        host, _, port = address.rpartition(":")
        data = encode_frame(request(code, dict(fields), body=body, opaque=1))
        with trio.move_on_after(QUESTION_S):
            try:
                async with await self._connect(host, int(port)) as stream:
                    await stream.send_all(data)
                    size = int.from_bytes(await _exactly(stream, 4), "big")
                    return decode_frame(await _exactly(stream, size))
            except trio.BrokenResourceError as error:
                raise ServerFailed(f"{address} broke the connection on request {code}") from error
        raise ServerFailed(f"{address} did not answer request {code} within {QUESTION_S:g} s")

    async def _connect(self, host: str, port: int) -> trio.abc.Stream:
        plain = await trio.open_tcp_stream(host, port)
        if self._tls is None:
            return plain
        return trio.SSLStream(plain, self._tls, server_hostname=host, https_compatible=True)


async def _exactly(stream: trio.abc.Stream, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = await stream.receive_some(count - len(data))
        if not chunk:
            raise ServerFailed("connection closed in the middle of an answer")
        data += chunk
    return bytes(data)


def _accepted(reply: Frame) -> None:
    if reply.code != ResponseCode.SUCCESS:
        raise ServerFailed(f"refused with code {reply.code}: {reply.remark}")


def _checked(reply: Frame, what: str) -> dict[str, Any]:
    _accepted(reply)
    value = fastjson.loads(reply.body)
    if not isinstance(value, dict):
        raise ServerFailed(f"{what} is not an object: {reply.body!r}")
    return value


def _masters(brokers: Iterable[dict[str, dict[str, str]]]) -> list[str]:
    return sorted(b["brokerAddrs"]["0"] for b in brokers if "0" in b["brokerAddrs"])
