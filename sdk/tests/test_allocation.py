"""Every queue has exactly one owner, and it is the one that Java clients would agree on."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk import (
    Allocate,
    AllocateByConfig,
    AllocateConsistentHash,
    AllocateMachineRoom,
    AllocateMachineRoomNearby,
    MessageQueue,
    allocate_averagely,
    allocate_by_circle,
)

DIVIDED_BY_JAVA = (
    Path(__file__).parents[2] / "compat_tests" / "vectors" / "filters" / "allocations.jsonl"
)


def room_of_broker(queue: MessageQueue) -> str:
    return queue.broker_name.split("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.split("-")[0]


STRATEGIES: dict[str, Allocate] = {
    "averagely": allocate_averagely,
    "circle": allocate_by_circle,
    "consistent_hash": AllocateConsistentHash(),
    "machine_room": AllocateMachineRoom(frozenset({"r1", "r2"})),
    "machine_room_nearby": AllocateMachineRoomNearby(room_of_broker, room_of_client),
}


def test_divisions_made_by_the_java_client_are_ours() -> None:
    seen = set()
    for line in DIVIDED_BY_JAVA.read_text().splitlines():
        case = json.loads(line)
        allocate = STRATEGIES[case["strategy"]]
        ours = allocate(
            case["client_id"], [MessageQueue(*q) for q in case["queues"]], case["client_ids"]
        )
        assert ours == [MessageQueue(*q) for q in case["ours"]], case
        seen.add(case["strategy"])
    assert seen == set(STRATEGIES)


def queues_of(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", f"broker-{n % 3}", n // 3) for n in range(count)]


@given(queues=st.integers(0, 100), clients=st.integers(1, 40))
def test_every_queue_has_one_owner_and_shares_are_even(queues: int, clients: int) -> None:
    every = sorted(queues_of(queues))
    ids = [f"client-{n:03}" for n in range(clients)]
    shares = [allocate_averagely(client_id, every, ids) for client_id in ids]
    assert [queue for share in shares for queue in share] == every
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def reference(index: int, queues: int, clients: int) -> range:
    """The arithmetic of 4.9.8, AllocateMessageQueueAveragely."""
    mod = queues % clients
    if queues <= clients:
        average = 1
    else:
        average = queues // clients + (1 if mod > 0 and index < mod else 0)
    start = index * average if mod > 0 and index < mod else index * average + mod
    return range(start, start + max(0, min(average, queues - start)))


@given(queues=st.integers(0, 100), clients=st.integers(1, 40), data=st.data())
def test_the_division_is_the_java_clients(queues: int, clients: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, clients - 1))
    every, ids = queues_of(queues), [f"client-{n:03}" for n in range(clients)]
    expected = [every[n] for n in reference(index, queues, clients)]
    assert allocate_averagely(ids[index], every, ids) == expected


def test_a_client_that_the_broker_does_not_list_gets_nothing() -> None:
    assert allocate_averagely("me", queues_of(4), ["other"]) == []


@given(
    st.sampled_from(["averagely", "circle", "consistent_hash", "machine_room_nearby"]),
    st.integers(0, 60),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_whatever_the_strategy_every_queue_has_one_owner(
    name: str, queues: int, clients: int, rooms: int
) -> None:
    every = [MessageQueue("T", f"r{n % rooms}@broker", n // rooms) for n in range(queues)]
    ids = [f"r{n % 3}-client-{n}" for n in range(clients)]
    shares = [STRATEGIES[name](client_id, sorted(every), sorted(ids)) for client_id in ids]
    assert sorted(queue for share in shares for queue in share) == sorted(every)


@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 4))
def test_of_machine_rooms_only_the_chosen_are_read(queues: int, clients: int, rooms: int) -> None:
    every = sorted(MessageQueue("T", f"r{n % rooms}@broker", n // rooms) for n in range(queues))
    ids = [f"client-{n:02}" for n in range(clients)]
    shares = [STRATEGIES["machine_room"](client_id, every, ids) for client_id in ids]
    near = [queue for queue in every if queue.broker_name in ("r1@broker", "r2@broker")]
    assert sorted(queue for share in shares for queue in share) == near


@given(st.integers(1, 60), st.integers(1, 8))
def test_on_a_ring_of_hashes_a_newcomer_takes_queues_and_moves_no_others(
    queues: int, clients: int
) -> None:
    every = sorted(queues_of(queues))
    ids = [f"client-{n}" for n in range(clients)]
    allocate = AllocateConsistentHash()
    for client_id in ids:
        before = allocate(client_id, every, ids)
        after = allocate(client_id, every, [*ids, "newcomer"])
        assert set(after) <= set(before)


def test_a_client_reads_what_it_is_told_to_and_its_share_of_the_retries() -> None:
    every = sorted(queues_of(6))
    allocate = AllocateByConfig(frozenset(every[2:4]))
    assert allocate("a", every, ["a", "b"]) == every[2:4]
    retries = [MessageQueue("%RETRY%g", "broker-0", n) for n in range(4)]
    assert allocate("a", retries, ["a", "b"]) == retries[:2]


def test_a_machine_room_must_have_a_name() -> None:
    allocate = AllocateMachineRoomNearby(lambda queue: "", room_of_client)
    with pytest.raises(ValueError, match="no machine room is named"):
        allocate("r1-a", queues_of(1), ["r1-a"])


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_stranger_gets_nothing_whatever_the_strategy(name: str) -> None:
    assert STRATEGIES[name]("r1-me", queues_of(4), ["r1-other"]) == []
