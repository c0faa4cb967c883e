"""A group with stages is given no message of a stage before the one in front is committed."""

import json
import random
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.sessions.state import _stages
from lanemq.storage import Store
from lanemq.testkit.proxy.brokers import (
    Client,
    TestBroker,
    open_test_broker,
    pull_header,
)
from lanemq.testkit.proxy.turns import Turns
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import GroupList, SubscriptionGroupConfig
from lanemq.wire.frame import Frame
from lanemq.wire.headers import DeleteSubscriptionGroup, ResetOffset, UpdateConsumerOffset
from lanemq.wire.message import StageRecord, Stages, decode_messages, stage_group

SUSPEND, SUBSCRIPTION, COMMIT = 2, 4, 1
PULL = RequestCode.PULL_MESSAGE
NOT_FOUND = ResponseCode.PULL_NOT_FOUND
RETRY = ResponseCode.PULL_RETRY_IMMEDIATELY


async def set_stages(client: Client, stages: object, group: str = "g") -> Frame:
    config = SubscriptionGroupConfig(group_name=group, extra={"stages": stages})
    return await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())


async def commit(client: Client, offset: int, group: str = "g") -> None:
    header = UpdateConsumerOffset(group, "T", 0, offset)
    answer = await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())
    assert answer.code == 0


async def fill(client: Client, count: int, tags: str = "A") -> None:
    for number in range(count):
        tag = tags[number % len(tags)]
        await client.send(body=b"%d" % number, properties={"TAGS": tag})


async def found(client: Client, offset: int, **changes: object) -> list[int] | None:
    """Offsets of what a pull is given, None where it is told to wait."""
    answer = await client.pull(offset=offset, **changes)  # type: ignore[arg-type]
    if answer.code == NOT_FOUND:
        assert int(answer.fields["nextBeginOffset"]) == offset
        return None
    assert answer.code == 0
    offsets = [message.queue_offset for message in decode_messages(answer.body)]
    assert int(answer.fields["nextBeginOffset"]) > offsets[-1]
    return offsets


async def test_a_pull_ends_with_its_stage_and_the_next_one_waits_for_the_commit(
    client: Client,
) -> None:
    await fill(client, 10)
    await set_stages(client, [2, 3])
    assert await found(client, 0) == [0, 1]
    assert await found(client, 2) is None
    await commit(client, 1)
    assert await found(client, 2) is None
    await commit(client, 2)
    assert await found(client, 2, max_msg_nums=2) == [2, 3]
    assert await found(client, 4) == [4]
    assert await found(client, 5) is None
    await commit(client, 5)
    assert await found(client, 5) == [5, 6, 7, 8, 9], "what follows the last stage has no order"


async def test_other_groups_and_retry_topics_have_no_stages(client: Client) -> None:
    await fill(client, 5)
    await set_stages(client, [2])
    assert await found(client, 0, consumer_group="other") == [0, 1, 2, 3, 4]
    await client.heartbeat(consumers={"g": {"T": "*"}})
    for number in range(4):
        await client.send(topic="%RETRY%g", body=b"%d" % number)
    assert await found(client, 0, topic="%RETRY%g") == [0, 1, 2, 3]


async def test_who_broadcasts_is_not_held_back(client: Client) -> None:
    await fill(client, 5)
    await set_stages(client, [2])
    await client.heartbeat(consumers={"g": {"T": "*"}}, message_model="BROADCASTING")
    assert await found(client, 0) == [0, 1, 2, 3, 4]


async def test_a_long_poll_waits_for_the_commit(
    broker: TestBroker, client: Client, autojump_clock: MockClock
) -> None:
    await fill(client, 4)
    await set_stages(client, [2, 1])
    assert await found(client, 0) == [0, 1]
    other = broker.connect()
    answers: list[Frame] = []

    async def poll() -> None:
        header = pull_header("T", 0, 2, sys_flag=SUSPEND | SUBSCRIPTION)
        answers.append(await client.call(PULL, header.to_fields()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        await wait_all_tasks_blocked()
        await other.send(body=b"more", properties={"TAGS": "A"})
        await commit(other, 1)
        await wait_all_tasks_blocked()
        assert answers == [], "neither a message nor a smaller commit opens the stage"
        await commit(other, 2)
    assert [m.queue_offset for m in decode_messages(answers[0].body)] == [2]


async def test_a_long_poll_that_waits_in_vain_is_told_to_try_again(
    client: Client, autojump_clock: MockClock
) -> None:
    await fill(client, 4)
    await set_stages(client, [2])
    assert await found(client, 0) == [0, 1]
    header = pull_header("T", 0, 2, sys_flag=SUSPEND | SUBSCRIPTION, suspend_timeout_millis=7000)
    started_s = trio.current_time()
    answer = await client.call(PULL, header.to_fields())
    assert answer.code == NOT_FOUND
    assert answer.fields["nextBeginOffset"] == "2"
    assert trio.current_time() - started_s == pytest.approx(7, abs=0.2)


async def test_the_commit_that_comes_with_a_pull_opens_its_stage(client: Client) -> None:
    await fill(client, 4)
    await set_stages(client, [2])
    assert await found(client, 0) == [0, 1]
    flags = COMMIT | SUBSCRIPTION
    assert await found(client, 2, sys_flag=flags, commit_offset=1) is None
    assert await found(client, 2, sys_flag=flags, commit_offset=2) == [2, 3]


async def test_what_the_subscription_does_not_deliver_does_not_count(client: Client) -> None:
    await fill(client, 12, tags="ABB")
    await set_stages(client, [2, 1])
    assert await found(client, 0, subscription="A") == [0, 3]
    assert await found(client, 4, subscription="A") is None
    await commit(client, 4)
    assert await found(client, 4, subscription="A") == [6]
    await commit(client, 7)
    assert await found(client, 7, subscription="A") == [9]


async def test_counting_begins_where_the_group_is(client: Client) -> None:
    await fill(client, 10)
    await commit(client, 4)
    await set_stages(client, [2, 3])
    assert await found(client, 4) == [4, 5]
    assert await found(client, 6) is None
    await set_stages(client, [])
    assert await found(client, 6) == [6, 7, 8, 9]
    await commit(client, 7)
    await set_stages(client, [1])
    assert await found(client, 7) == [7]


async def test_a_consumer_that_begins_again_in_front_gets_the_rest_of_its_stage(
    client: Client,
) -> None:
    await fill(client, 10)
    await set_stages(client, [2, 5])
    assert await found(client, 0) == [0, 1]
    await commit(client, 2)
    assert await found(client, 2) == [2, 3, 4, 5, 6]
    assert await found(client, 4) == [4, 5, 6]
    assert await found(client, 7) is None
    assert await found(client, 1) == [1], "a stage that was through before ends there as well"


async def test_a_group_that_skips_messages_has_settled_them(client: Client) -> None:
    await fill(client, 10)
    await set_stages(client, [2, 3, 4])
    assert await found(client, 0) == [0, 1]
    await commit(client, 6)
    assert await found(client, 6) == [6, 7, 8]


async def test_stages_survive_a_restart(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        await fill(client, 10)
        await set_stages(client, [2, 3])
        assert await found(client, 0) == [0, 1]
        await commit(client, 2)
        assert await found(client, 2, max_msg_nums=1) == [2]
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        assert await found(client, 3) == [3, 4]
        assert await found(client, 5) is None


async def test_settings_from_a_tool_that_knows_no_stages_leave_them_alone(
    broker: TestBroker, client: Client
) -> None:
    await set_stages(client, [2, 3])
    config = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())
    kept = broker.context.groups.get("g")
    assert kept is not None
    assert kept.retry_max_times == 3
    assert kept.extra == {"stages": [2, 3]}
    answer = await client.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert json.loads(answer.body)["subscriptionGroupTable"]["g"]["stages"] == [2, 3]


@pytest.mark.parametrize("stages", [[0], [2, -1], ["x"], "2,3", [1 << 30], [True]])
async def test_stages_that_are_none_are_refused(
    broker: TestBroker, client: Client, stages: object
) -> None:
    answer = await set_stages(client, stages)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "stage" in (answer.remark or "")
    assert broker.context.groups.get("g") is None


async def test_an_operators_reset_counts_anew(client: Client) -> None:
    await fill(client, 10)
    await set_stages(client, [2, 3])
    assert await found(client, 0) == [0, 1]
    await commit(client, 2)
    assert await found(client, 2) == [2, 3, 4]
    await commit(client, 1)  # nobody of the group is connected
    assert await found(client, 1) == [1, 2]
    assert await found(client, 3) is None


async def test_a_late_commit_of_a_member_does_not_count_anew(client: Client) -> None:
    await fill(client, 10)
    await set_stages(client, [2, 3])
    assert await found(client, 0) == [0, 1]
    await commit(client, 2)
    assert await found(client, 2) == [2, 3, 4]
    await client.heartbeat(consumers={"g": {"T": "*"}})
    await commit(client, 1)
    assert await found(client, 2) == [2, 3, 4]


async def test_a_reset_of_connected_members_counts_anew(client: Client) -> None:
    await fill(client, 10)
    await client.heartbeat(consumers={"g": {"T": "*"}})
    await set_stages(client, [2, 3])
    assert await found(client, 0) == [0, 1]
    for queue_id in range(1, 4):
        header = UpdateConsumerOffset("g", "T", queue_id, 0)
        await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())
    await commit(client, 2)
    assert await found(client, 2) == [2, 3, 4]
    wish = ResetOffset(topic="T", group="g", timestamp=0, is_force=True)
    frame = client.frame(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, wish.to_fields())
    await client.peer.send(frame)
    assert await found_after_push(client) == [0, 1]


async def found_after_push(client: Client) -> list[int] | None:
    """As ``found`` at 0, on a connection on which the broker said something of its own."""
    frame = client.frame(PULL, pull_header("T", 0, 0).to_fields())
    await client.peer.send(frame)
    while True:
        answer = await client.peer.receive()
        if answer.is_response and answer.opaque == frame.opaque:
            return [message.queue_offset for message in decode_messages(answer.body)]


async def test_a_deleted_group_leaves_no_count_behind(broker: TestBroker, client: Client) -> None:
    await fill(client, 4)
    await set_stages(client, [2])
    assert await found(client, 0) == [0, 1]
    header = DeleteSubscriptionGroup(group_name="g", clean_offset=True)
    await client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, header.to_fields())
    assert not [g for g in broker.context.store.tables.consumer_offsets.groups if "g" in g]


@given(
    sizes=st.lists(st.integers(1, 5), max_size=4),
    tags=st.text("AB", min_size=1, max_size=25),
    batch=st.integers(1, 7),
    looks=st.sampled_from([1, 4, _stages.LOOKS_MAX]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_plain_client_consumes_in_stages_whatever_it_commits_and_forgets(
    sizes: list[int],
    tags: str,
    batch: int,
    looks: int,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A client that pulls ahead, settles in any order, commits at times, and begins again."""
    rng, stages = random.Random(seed), Stages(sizes)
    wanted = [offset for offset, tag in enumerate(tags) if tag == "A"]
    number = {offset: n for n, offset in enumerate(wanted)}

    async def main() -> None:
        async with open_test_broker(tmp_path_factory.mktemp("store")) as broker:
            client = broker.connect()
            await fill(client, len(tags), tags)
            await set_stages(client, sizes)
            settled: set[int] = set()
            held: list[int] = []
            next_offset = committed = 0
            for _ in range(2000):
                if len(settled) == len(wanted):
                    return
                match rng.randrange(4):
                    case 0 | 1:
                        answer = await client.pull(
                            offset=next_offset, subscription="A", max_msg_nums=batch
                        )
                        next_offset = int(answer.fields["nextBeginOffset"])
                        if answer.code == 0:
                            for message in decode_messages(answer.body):
                                offset = message.queue_offset
                                stage = stages.stage_of(number[offset])
                                for earlier in wanted[: number[offset]]:
                                    if stages.stage_of(number[earlier]) < stage:
                                        assert earlier in settled
                                held.append(offset)
                    case 2 if held:
                        offset = held.pop(rng.randrange(len(held)))
                        settled.add(offset)
                    case _:
                        if rng.random() < 0.1:
                            held.clear()
                            next_offset = committed
                        else:
                            committed = min(held, default=next_offset)
                            await commit(client, committed)
            raise AssertionError("the client never came to the end")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_stages, "LOOKS_MAX", looks)
        patch.setattr(_stages, "SCAN_UNITS", 2)
        trio.run(main)


async def test_one_pull_counts_no_more_than_a_turn_has_time_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that nobody wants count for nothing, however many there are."""
    await fill(client, 40, tags="B")
    await commit(client, 0)
    await set_stages(client, [2])
    monkeypatch.setattr(_stages, "LOOKS_MAX", 8)
    monkeypatch.setattr(_stages, "SCAN_UNITS", 4)
    codes: list[int] = []
    while not codes or codes[-1] == RETRY:
        for tag in ("A", "C"):  # as while a subscription changes, from member to member
            answer = await client.pull(offset=40, subscription=tag)
            assert int(answer.fields["nextBeginOffset"]) == 40
            codes.append(answer.code)
    assert codes == [RETRY] * 8 + [NOT_FOUND] * 2


async def test_one_pull_judges_no_more_messages_than_a_turn_has_time_for(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SQL92: each may take milliseconds."""
    judged, record_at = 0, Store.record_at

    def counted(self: Store, log_position: int, *, queued: bool = False) -> bytes | None:
        nonlocal judged
        judged += 1
        turns.take(0.005)
        return record_at(self, log_position, queued=queued)

    async with open_test_broker(tmp_path, enable_property_filter=True) as broker:
        client = broker.connect()
        await fill(client, 40, tags="B")
        await commit(client, 0)
        await set_stages(client, [2])
        monkeypatch.setattr(Store, "record_at", counted)
        codes: list[int] = []
        while not codes or codes[-1] == RETRY:
            before = judged
            pull = {"sys_flag": SUBSCRIPTION, "expression_type": "SQL92", "subscription": "a = 5"}
            answer = await client.pull(offset=40, **pull)  # type: ignore[arg-type]
            codes.append(answer.code)
            assert judged - before <= 5
        assert judged >= 40
        assert codes == [RETRY] * (len(codes) - 1) + [NOT_FOUND]


async def test_records_of_stages_are_no_groups_of_a_topic(client: Client) -> None:
    await fill(client, 4)
    await set_stages(client, [2])
    assert await found(client, 0) == [0, 1]
    await commit(client, 2)
    await commit(client, StageRecord(2, 2).pack(), group=stage_group("other"))
    answer = await client.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
    assert GroupList.decode(answer.body).group_list == ("g",)


@pytest.mark.parametrize("is_counted_otherwise", [False, True])
async def test_the_count_to_the_end_of_a_segment_takes_short_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_counted_otherwise: bool
) -> None:
    """Whoever asks for a group's progress in a sealed segment has its messages counted."""
    monkeypatch.setattr(_stages, "LOOKS_MAX", 8)
    monkeypatch.setattr(_stages, "SCAN_UNITS", 4)
    async with open_test_broker(tmp_path) as broker:
        await fill(broker.connect(), 40)
        stages, key = broker.context.stages, ("g", "T", 0)
        stages.put(key, StageRecord(0, 0))
        steps = stages.count_out(Stages([100]), _stages.Part("T", 0, key, end=40))
        assert [next(steps) for _ in range(4)] == [None] * 4
        assert stages.record(key) == StageRecord(0, 0)
        if is_counted_otherwise:
            stages.put(key, StageRecord(30, 30))
        assert list(steps) in ([], [None])
        counted = StageRecord(30, 30) if is_counted_otherwise else StageRecord(40, 40)
        assert stages.record(key) == counted
