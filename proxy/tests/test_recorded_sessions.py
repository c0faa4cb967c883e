"""Sessions that real clients had with a real broker, replayed: our answers have the same shape.

What depends on time or chance (which messages a parked pull finds) is compared by its form;
everything else by its response code, its ext fields and, where it says so below, their values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.testkit.proxy.peers import Recorded
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import RouteData, TopicConfig
from lanemq.wire.frame import Frame
from lanemq.wire.message import decode_messages

SENDS = {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
REPLIES = {RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2}
PULLS = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
PULL_FIELDS = {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"}
SUSPEND = 2

Read = Callable[[str], Iterator[Recorded]]


@dataclass
class Session:
    """One capture: what was asked of the broker, and how it answered."""

    requests: list[tuple[int, Frame]] = field(default_factory=list)
    answers: dict[tuple[int, int], Frame] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    """Topics that had a route before they were first used, with their queues."""


def read_session(frames: Iterator[Recorded]) -> Session:
    session, asked, unknown = Session(), {}, set()
    for entry in frames:
        frame = entry.frame
        key = (entry.connection, frame.opaque)
        if entry.peer == "broker":
            if entry.from_client and not frame.is_response:
                session.requests.append((entry.connection, frame))
            elif not entry.from_client and frame.is_response:
                session.answers[key] = frame
        elif entry.from_client:
            asked[key] = frame
        elif (topic := asked[key].fields.get("topic")) and topic not in unknown:
            if frame.code == ResponseCode.TOPIC_NOT_EXIST:
                unknown.add(topic)
            elif frame.code == 0 and asked[key].code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                (queues,) = RouteData.decode(frame.body).queue_datas
                session.topics.setdefault(topic, queues.write_queue_nums)
    return session


def positions(answer: Frame) -> list[int]:
    """The log positions in the message ids of a send's answer."""
    return [int(message_id[-16:], 16) for message_id in answer.fields["msgId"].split(",")]


class Replay:
    """Asks our broker what the real one was asked; translates log positions from there to here."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.clients: dict[int, Client] = {}
        self.here: dict[int, int] = {}
        self.halves: dict[int, str] = {}
        """Offsets of half messages here, by their log positions there."""
        self.now_ms = 0
        self.unsettled: set[str] = set()
        """Topics that get messages at some time, or would get them from transactions."""
        self.compared = 0
        self.pushed = 0
        """Replies to requests, which the recorded clients took."""

    async def run(self, broker: TestBroker) -> None:
        for topic, queues in self.session.topics.items():
            if broker.context.topics.get(topic) is None:
                broker.context.topics.put(TopicConfig(topic, queues, queues))
        for connection, frame in self.session.requests:
            recorded = self.session.answers.get((connection, frame.opaque))
            if frame.fields.get("fromTransactionCheck") == "true":
                continue  # no time passes here in which this broker would have asked
            frame = self.translated(frame)
            born = frame.fields.get("g", frame.fields.get("bornTimestamp", "0"))
            self.now_ms = max(self.now_ms, int(born))
            if connection not in self.clients:
                self.clients[connection] = broker.connect()
            client = self.clients[connection]
            await client.peer.send(frame)
            flags = int(frame.fields.get("sysFlag", "0")) if frame.code in PULLS else 0
            if frame.is_oneway or flags & SUSPEND or recorded is None:
                await trio.sleep(0.01)  # simulated; what it stores or wakes is done by then
                continue
            async with trio.open_nursery() as nursery:
                if frame.code in REPLIES:  # another connection of the client's is the asker's
                    for other in set(self.clients.values()) - {client}:
                        nursery.start_soon(self.take_replies, other)
                while (answer := await client.peer.receive()).opaque != frame.opaque or (
                    not answer.is_response
                ):
                    self.note(answer)
                nursery.cancel_scope.cancel()
            self.compare(frame, recorded, answer)

    async def take_replies(self, client: Client) -> None:
        """Acknowledge the replies that a connection is pushed, until cancelled."""
        while True:
            frame = await client.peer.receive()
            if frame.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                self.pushed += 1
                await client.peer.send(frame.reply())
            else:
                self.note(frame)

    def translated(self, frame: Frame) -> Frame:
        if frame.code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.VIEW_MESSAGE_BY_ID):
            position = int(frame.fields["offset"])
            offset = str(self.here.get(position, position))
            return msgspec.structs.replace(frame, fields=frame.fields | {"offset": offset})
        if frame.code == RequestCode.END_TRANSACTION:
            position = int(frame.fields["commitLogOffset"])
            fields = {
                "commitLogOffset": str(self.here[position]),
                "tranStateTableOffset": self.halves[position],
            }
            return msgspec.structs.replace(frame, fields=frame.fields | fields)
        return frame

    def note(self, pushed: Frame) -> None:
        """Look at an answer to a parked pull, or at a request of the broker."""
        if not pushed.is_response:
            assert pushed.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
            return
        if pushed.code in (0, 19, 20, 21):
            assert set(pushed.fields) == PULL_FIELDS
            assert bool(pushed.body) == (pushed.code == 0)
            decode_messages(pushed.body)
        else:
            assert pushed.code in (1, 3, 17, 24, 25), pushed

    def compare(self, frame: Frame, recorded: Frame, answer: Frame) -> None:
        self.compared += 1
        assert answer.serialize == frame.serialize
        properties = frame.fields.get("i", frame.fields.get("properties", ""))
        topic = frame.fields.get("b", frame.fields.get("topic", ""))
        if "TRAN_MSG\x01true" in properties:
            self.unsettled.add(topic)  # whether it is committed is a matter of time
        if "DELAY\x01" in properties:
            self.unsettled.add(topic)
        if frame.code == RequestCode.CHECK_CLIENT_CONFIG:  # about SQL92 in all of them
            assert answer.code in (0, ResponseCode.SYSTEM_ERROR)
            return
        if frame.fields.get("expressionType") == "SQL92":
            return
        if frame.code in PULLS and topic in self.unsettled:
            self.note(answer)
            return
        assert answer.code == recorded.code, (frame, recorded, answer)
        fields = set(answer.fields) - {"transactionId"}  # since 5.x, to every client
        assert fields == set(recorded.fields) - {"transactionId"}, (frame, recorded, answer)
        assert bool(answer.body) == bool(recorded.body), (frame, recorded, answer)
        if frame.code in SENDS and answer.code == 0:
            assert answer.fields["queueId"] == recorded.fields["queueId"]
            for there, here in zip(positions(recorded), positions(answer), strict=True):
                self.here[there] = here
                self.halves[there] = answer.fields["queueOffset"]


@pytest.mark.parametrize("name", ["c326", "c420", "c497", "c497bin", "go", "js"])
async def test_a_recorded_client_gets_the_answers_it_got_from_the_real_broker(
    recorded: Read, tmp_path: Path, autojump_clock: MockClock, name: str
) -> None:
    session = read_session(recorded(name))
    replay = Replay(session)
    async with open_test_broker(
        tmp_path, mapped_file_size_commit_log=16 << 20, now_ms=lambda: replay.now_ms
    ) as broker:
        await replay.run(broker)
    assert replay.compared > 50
    replies = [frame for _, frame in session.requests if frame.code in REPLIES]
    assert replay.pushed == len(replies) == (1 if name.startswith("c497") else 0)
