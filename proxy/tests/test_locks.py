"""A queue is locked by at most one client, for 60 seconds from its last renewal."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.sessions.state._locks import LOCK_LIFE_S, QueueLocks
from lanemq.wire.bodies import MessageQueue

QUEUES = [MessageQueue("T", "b", queue_id) for queue_id in range(3)]
CLIENTS = ["x", "y"]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lock", "lock bound", "unlock", "expire", "close"]),
        st.sampled_from(CLIENTS),
        st.sets(st.sampled_from(QUEUES)),
        st.sampled_from([0.0, 1.0, 30.0, LOCK_LIFE_S, LOCK_LIFE_S + 0.001]),
    ),
    max_size=30,
)


@given(STEPS)
def test_no_two_clients_hold_a_queue_at_once(
    steps: list[tuple[str, str, set[MessageQueue], float]],
) -> None:
    locks, now_s = QueueLocks(), 0.0
    model: dict[MessageQueue, tuple[str, float]] = {}
    bound: dict[MessageQueue, str] = {}
    for what, client, queues, elapsed_s in steps:
        now_s += elapsed_s
        if what in ("lock", "lock bound"):
            connection = f"connection of {client}" if what == "lock bound" else None
            held = locks.lock("g", client, queues, now_s, connection=connection)
            for queue in queues:
                owner = model.get(queue)
                is_free = owner is None or owner[0] == client or now_s - owner[1] > LOCK_LIFE_S
                assert (queue in held) == is_free
                if is_free:
                    model[queue] = (client, now_s)
                    bound[queue] = client if connection else ""
        elif what == "unlock":
            locks.unlock("g", client, queues)
            for queue in queues:
                if queue in model and model[queue][0] == client:
                    del model[queue]
        elif what == "close":
            locks.closed(f"connection of {client}")
            model = {queue: owner for queue, owner in model.items() if bound[queue] != client}
        else:
            locks.expire(now_s)
        for queue in QUEUES:
            owner = model.get(queue)
            expected = owner[0] if owner and now_s - owner[1] <= LOCK_LIFE_S else None
            assert locks.holder("g", queue, now_s) == expected


def test_groups_do_not_share_locks() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "x", QUEUES, 0.0) == QUEUES
    assert locks.lock("h", "y", QUEUES, 0.0) == QUEUES


def test_unlocking_what_others_hold_changes_nothing() -> None:
    locks = QueueLocks()
    locks.lock("g", "x", QUEUES[:1], 0.0)
    locks.unlock("g", "y", QUEUES)
    assert locks.holder("g", QUEUES[0], 0.0) == "x"


def test_expired_locks_cost_no_memory() -> None:
    locks = QueueLocks()
    locks.lock("g", "x", QUEUES, 0.0, connection="c")
    locks.expire(LOCK_LIFE_S + 1)
    assert not locks._groups
    assert not locks._bound
