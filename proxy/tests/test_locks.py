"""A queue is locked by at most one client, for 60 seconds from its last renewal."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.net._turns import all_steps
from lanemq.proxy.net.limits._budget import Budget
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
    locks, now_s, closings = QueueLocks(Budget()), 0.0, 0
    model: dict[MessageQueue, tuple[str, float]] = {}
    bound: dict[MessageQueue, str] = {}
    for what, client, queues, elapsed_s in steps:
        now_s += elapsed_s
        if what in ("lock", "lock bound"):
            connection = f"{client}'s, {closings}" if what == "lock bound" else None
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
            for each in CLIENTS:  # one that has ended does not come again
                locks.closed(f"{each}'s, {closings}")
            closings += 1
            model = {queue: owner for queue, owner in model.items() if not bound[queue]}
        else:
            all_steps(locks.expire(now_s))
        for queue in QUEUES:
            owner = model.get(queue)
            expected = owner[0] if owner and now_s - owner[1] <= LOCK_LIFE_S else None
            assert locks.holder("g", queue, now_s) == expected


def test_groups_do_not_share_locks() -> None:
    locks = QueueLocks(Budget())
    assert locks.lock("g", "x", QUEUES, 0.0) == QUEUES
    assert locks.lock("h", "y", QUEUES, 0.0) == QUEUES


def test_unlocking_what_others_hold_changes_nothing() -> None:
    locks = QueueLocks(Budget())
    locks.lock("g", "x", QUEUES[:1], 0.0)
    locks.unlock("g", "y", QUEUES)
    assert locks.holder("g", QUEUES[0], 0.0) == "x"


def test_expired_locks_cost_no_memory() -> None:
    locks = QueueLocks(Budget())
    locks.lock("g", "x", QUEUES, 0.0, connection="c")
    all_steps(locks.expire(LOCK_LIFE_S + 1))
    assert not locks._groups
    assert not locks._bound


def test_a_renewal_takes_no_further_place_and_follows_the_connection() -> None:
    locks = QueueLocks(Budget())
    for now_s in (0.0, 20.0):
        assert locks.lock("g", "x", QUEUES, now_s, owner="first") == QUEUES
    assert locks.lock("g", "x", QUEUES, 40.0, connection="c", owner="second") == QUEUES
    assert locks._charges.held_by("first") == 0
    assert locks._charges.held_by("second") == len(QUEUES)
    locks.closed("c")
    assert locks.lock("g", "y", QUEUES, 40.0, owner="third") == QUEUES
    assert locks._charges.held_by("second") == 0


def test_locks_of_ended_connections_cost_no_memory_once_they_were_looked_at() -> None:
    locks = QueueLocks(Budget())
    locks.lock("g", "x", QUEUES, 0.0, connection="c", owner="c")
    locks.closed("c")
    assert locks.holder("g", QUEUES[0], 1.0) is None
    all_steps(locks.expire(1.0))
    assert not locks._groups
    assert not locks._bound
    assert not locks._ended
    assert not len(locks._charges)
