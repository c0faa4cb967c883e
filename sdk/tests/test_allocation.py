"""Every queue has exactly one owner, and the shares differ by one at most."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk import MessageQueue, allocate_averagely


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
