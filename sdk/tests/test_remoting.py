"""Calls, answers, connections that break, and callers that give up."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    BrokerUnreachable,
    ClientClosed,
    InvalidName,
    RefusedByBroker,
    RequestTimedOut,
    open_remoting_client,
)
from lanemq.testkit.sdk.cluster import FakeBroker, FakeCluster, Peer
from lanemq.wire import Refused
from lanemq.wire.frame import Frame, request

ECHO, SLOW = 900, 901


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    async def slow(frame: Frame, peer: Peer) -> Frame:
        await trio.sleep(float(frame.fields["delay_s"]))
        return frame.reply(body=frame.body)

    def echo(frame: Frame, peer: Peer) -> Frame:
        return frame.reply(body=frame.body)

    cluster.broker.handlers[ECHO] = echo
    cluster.broker.waiters[SLOW] = slow
    return cluster.broker


async def test_every_caller_gets_its_own_answer_whatever_their_order(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    answers: dict[int, bytes] = {}

    async def ask(number: int) -> None:
        fields = {"delay_s": str((number * 7) % 20 / 10)}
        answer = await client.call(broker.address, request(SLOW, fields, b"%d" % number))
        answers[number] = answer.body

    async with open_remoting_client(dial=cluster.dial) as client, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(ask, number)
    assert answers == {number: b"%d" % number for number in range(50)}
    assert cluster.dials == [broker.address]


async def test_a_refusal_carries_code_remark_and_address(
    cluster: FakeCluster, broker: FakeBroker
) -> None:
    broker.refuse(ECHO, 16)
    async with open_remoting_client(dial=cluster.dial) as client:
        with pytest.raises(RefusedByBroker, match=r"16 \(NO_PERMISSION\): injected") as caught:
            await client.call(broker.address, request(ECHO))
        assert (caught.value.code, caught.value.remark) == (16, "injected")
        assert caught.value.address == broker.address
        assert caught.value.retriable
        answer = await client.call(broker.address, request(ECHO, body=b"again"))
        assert answer.body == b"again"


async def test_a_code_that_is_accepted_is_no_refusal(
    cluster: FakeCluster, broker: FakeBroker
) -> None:
    broker.refuse(ECHO, 19)
    async with open_remoting_client(dial=cluster.dial) as client:
        answer = await client.call(broker.address, request(ECHO), accept={0, 19})
    assert answer.code == 19


async def test_no_answer_times_out_and_the_connection_goes_on(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    broker.mute(ECHO)
    async with open_remoting_client(dial=cluster.dial) as client:
        start = trio.current_time()
        with pytest.raises(RequestTimedOut, match="request 900 within 3 s"):
            await client.call(broker.address, request(ECHO))
        assert trio.current_time() == start + 3
        assert (await client.call(broker.address, request(ECHO, body=b"x"))).body == b"x"
    assert len(cluster.dials) == 1


async def test_a_connection_silent_for_long_is_replaced(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    broker.mute(ECHO)
    async with open_remoting_client(dial=cluster.dial) as client:
        with pytest.raises(RequestTimedOut):
            await client.call(broker.address, request(ECHO), 11.0)
        await client.call(broker.address, request(ECHO))
    assert len(cluster.dials) == 2


async def test_a_late_answer_is_dropped(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    async with open_remoting_client(dial=cluster.dial) as client:
        with pytest.raises(RequestTimedOut):
            await client.call(broker.address, request(SLOW, {"delay_s": "5"}, b"late"), 1.0)
        answer = await client.call(broker.address, request(SLOW, {"delay_s": "9"}, b"mine"), 10.0)
    assert answer.body == b"mine"


@pytest.mark.parametrize("delay_s", [0.0, 0.5, 1.5])
async def test_a_cancelled_caller_leaves_a_clean_connection(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock, delay_s: float
) -> None:
    # 0: before anything is written; 0.5: while connecting; 1.5: waiting for the answer
    cluster.connect_delay_s = 1.0
    async with open_remoting_client(dial=cluster.dial) as client:
        with trio.move_on_after(delay_s) as scope:
            await client.call(broker.address, request(SLOW, {"delay_s": "2"}, b"given up"), 30.0)
        assert scope.cancelled_caught
        answer = await client.call(broker.address, request(SLOW, {"delay_s": "3"}, b"next"), 30.0)
        assert answer.body == b"next"
        link = client._links[broker.address]
        assert not len(link._calls)
    assert len(cluster.dials) == 1


async def test_a_caller_cancelled_in_mid_write_sends_its_frame_whole(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    big = bytes(3 << 20)
    async with open_remoting_client(dial=cluster.dial) as client:
        await client.call(broker.address, request(ECHO))
        with trio.move_on_after(0) as scope:
            await client.call(broker.address, request(ECHO, body=big), 30.0)
        assert scope.cancelled_caught
        assert (await client.call(broker.address, request(ECHO, body=b"x"), 30.0)).body == b"x"
    assert [len(frame.body) for frame in broker.requests] == [0, len(big), 1]


async def test_callers_of_a_connection_that_breaks_all_know(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    failures: list[str] = []

    async def ask() -> None:
        with pytest.raises(BrokerUnreachable) as caught:
            await client.call(broker.address, request(SLOW, {"delay_s": "20"}), 30.0)
        failures.append(caught.value.reason)

    async with open_remoting_client(dial=cluster.dial) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
            await trio.sleep(1)
            broker.cut()
        assert failures == ["the server closed the connection"] * 5
        assert (await client.call(broker.address, request(ECHO, body=b"back"))).body == b"back"
    assert len(cluster.dials) == 2


async def test_nobody_there_is_an_error_that_names_the_address(cluster: FakeCluster) -> None:
    cluster.broker.reachable = False
    async with open_remoting_client(dial=cluster.dial) as client:
        with pytest.raises(BrokerUnreachable, match=r"10\.0\.1\.1:10911: cannot connect"):
            await client.call(cluster.broker.address, request(ECHO))
        assert client.connected_addresses == ()


async def test_connecting_too_long_is_an_error(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    cluster.connect_delay_s = 100
    async with open_remoting_client(dial=cluster.dial) as client:
        with pytest.raises(BrokerUnreachable, match="cannot connect within 3 s"):
            await client.call(broker.address, request(ECHO), 10.0)


async def test_garbage_from_the_server_breaks_the_connection(
    cluster: FakeCluster, broker: FakeBroker, nursery: trio.Nursery
) -> None:
    def garbage(frame: Frame, peer: Peer) -> None:
        nursery.start_soon(peer.stream.send_all, b"HTTP/1.1 400 Bad Request\r\n")

    broker.handlers[ECHO] = garbage
    async with open_remoting_client(dial=cluster.dial) as client:
        with pytest.raises(BrokerUnreachable, match="the server broke the protocol"):
            await client.call(broker.address, request(ECHO))


async def test_the_servers_requests_are_answered(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    async def later(frame: Frame, address: str) -> Frame:
        await trio.sleep(1)
        return frame.reply(body=address.encode())

    def refuse(frame: Frame, address: str) -> Frame:
        raise Refused(16, "not for you")

    def fail(frame: Frame, address: str) -> Frame:
        raise ZeroDivisionError("oops")

    async with open_remoting_client(dial=cluster.dial) as client:
        client.handle(1000, lambda frame, _: frame.reply(body=b"at once"))
        client.handle(1001, later)
        client.handle(1002, refuse)
        client.handle(1003, fail)
        await client.call(broker.address, request(ECHO))
        peer = broker.peers[0]
        assert (await peer.call(request(1000))).body == b"at once"
        assert (await peer.call(request(1001))).body == broker.address.encode()
        answer = await peer.call(request(1002))
        assert (answer.code, answer.remark) == (16, "not for you")
        answer = await peer.call(request(1003))
        assert (answer.code, answer.remark) == (1, "ZeroDivisionError: oops")
        answer = await peer.call(request(1999))
        assert (answer.code, answer.remark) == (3, " request type 1999 not supported")


async def test_a_one_way_request_of_the_server_is_never_answered(
    cluster: FakeCluster, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    async with open_remoting_client(dial=cluster.dial) as client:
        await client.call(broker.address, request(ECHO))
        broker.peers[0].post(request(1999, oneway=True))
        await trio.sleep(1)  # an answer would fail in Peer.answered
        await client.call(broker.address, request(ECHO))


async def test_one_way_requests_arrive_in_order_and_before_the_end(
    cluster: FakeCluster, broker: FakeBroker
) -> None:
    async with open_remoting_client(dial=cluster.dial) as client:
        for number in range(20):
            await client.oneway(broker.address, request(ECHO, body=b"%d" % number, oneway=True))
    await trio.testing.wait_all_tasks_blocked()
    assert [frame.body for frame in broker.requests] == [b"%d" % n for n in range(20)]


async def test_a_closed_client_says_so(cluster: FakeCluster) -> None:
    async with open_remoting_client(dial=cluster.dial) as client:
        pass
    with pytest.raises(ClientClosed):
        await client.call(cluster.broker.address, request(ECHO))


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:x", "host:65536", "host:-1"])
async def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    async with open_remoting_client() as client:
        with pytest.raises(InvalidName, match="write host:port"):
            await client.call(address, request(ECHO))


async def test_a_lone_error_leaves_the_block_as_itself(cluster: FakeCluster) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_remoting_client(dial=cluster.dial):
            raise KeyError("mine")


async def test_real_sockets_carry_frames_of_every_size(nursery: trio.Nursery) -> None:
    node = FakeBroker(nursery, "127.0.0.1:1", "b")
    node.handlers[ECHO] = lambda frame, _: frame.reply(body=frame.body)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    nursery.start_soon(trio.serve_listeners, node.serve, listeners)

    async def ask(size: int) -> None:
        answer = await client.call(address, request(ECHO, body=bytes(size)), 30.0)
        assert len(answer.body) == size

    async with open_remoting_client() as client:
        async with trio.open_nursery() as askers:
            for size in (0, 1, 70_000, 5 << 20, 9 << 20, 3, 200_000):
                askers.start_soon(ask, size)
        for delay_s in (0, 0.001, 0.005):  # cancelled in the middle of writing, or of waiting
            with trio.move_on_after(delay_s):
                await ask(9 << 20)
            await ask(5)
        assert len(node.peers) == 1
