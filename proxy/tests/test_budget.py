"""Memory kept for peers stays within one limit, and whoever keeps the most goes first."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.net.limits._budget import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MIN_BYTES,
    Account,
    Budget,
    default_limit_bytes,
)
from lanemq.testkit.calls import calls_of_this_thread

LIMIT = 1000
CHARGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400)), max_size=60)


class Peers:
    """Accounts by number, and who was closed, with what each kept at that moment."""

    def __init__(self, count: int) -> None:
        self.budget = Budget(LIMIT)
        self.closed: list[tuple[int, dict[int, int]]] = []
        self.accounts = {number: self.open(number) for number in range(count)}

    def open(self, number: int) -> Account:
        def relieve() -> None:
            kept = {n: one.kept_bytes for n, one in self.accounts.items() if one.is_open}
            self.closed.append((number, kept))
            self.accounts[number].close()

        return self.budget.open(relieve)


@given(CHARGES)
def test_the_limit_holds_and_only_the_largest_is_closed(charges: list[tuple[int, int]]) -> None:
    peers = Peers(6)
    for number, size in charges:
        account = peers.accounts[number]
        before = len(peers.closed)
        fits = peers.budget.used_bytes + size <= LIMIT
        account.add(size)
        kept = sum(one.kept_bytes for one in peers.accounts.values() if one.is_open)
        assert peers.budget.used_bytes == kept <= LIMIT
        if fits or not account.is_open:
            assert len(peers.closed) == before or not fits
        for gone, all_kept in peers.closed[before:]:
            assert all_kept[gone] == max(all_kept.values())


def test_what_a_closed_peer_frees_later_is_not_freed_twice() -> None:
    peers = Peers(2)
    peers.accounts[0].add(600)
    peers.accounts[1].add(300)
    peers.accounts[1].add(300)  # 1200: the first has the most, or as much
    (gone,) = [number for number, account in peers.accounts.items() if not account.is_open]
    peers.accounts[gone].add(-600)
    peers.accounts[gone].close()
    assert peers.budget.used_bytes == 600


def test_a_peer_is_admitted_as_long_as_it_is_not_the_largest() -> None:
    peers = Peers(2)
    peers.accounts[0].add(800)
    assert peers.accounts[0].admits(50)
    assert peers.accounts[1].admits(500)  # somebody else would have to go
    assert not peers.accounts[0].admits(101)  # the answer that says so needs room, too
    assert not peers.accounts[1].admits(900)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "open", "close"]), st.integers(0, 5), st.integers(-400, 400)
        ),
        max_size=80,
    )
)
def test_who_keeps_the_most_is_known_whatever_comes_and_goes(
    steps: list[tuple[str, int, int]],
) -> None:
    peers, number = Peers(6), 6
    for what, which, size in steps:
        living = [one for one in peers.accounts.values() if one.is_open]
        if what == "open" or not living:
            peers.accounts[number] = peers.open(number)
            number += 1
            continue
        account = living[which % len(living)]
        if what == "close":
            account.close()
            continue
        account.add(max(size, -account.kept_bytes))
        most = max((one.kept_bytes for one in peers.accounts.values() if one.is_open), default=0)
        for one in peers.accounts.values():
            if one.is_open:
                room = peers.budget.used_bytes + 100 <= LIMIT // 8 * 7
                assert one.admits(100) == (room or one.kept_bytes + 100 < most)


def test_no_request_looks_at_all_accounts_where_little_is_left() -> None:
    budget = Budget(1 << 30)
    accounts = [budget.open(lambda: None) for _ in range(5000)]
    accounts[0].add(budget.limit_bytes // 16 * 15)
    assert accounts[1].admits(100)  # it looks at all of them, once
    with calls_of_this_thread() as calls:
        for account in accounts:
            account.add(100)
            assert account.admits(100) == (account is not accounts[0])
            account.add(-50)
    assert calls.count <= 30 * len(accounts)
    with calls_of_this_thread() as calls:
        for _ in range(10_000):
            accounts[3].add(1)
            accounts[3].add(-1)
    assert calls.count <= 30 * 10_000


def test_the_default_is_a_share_of_the_memory() -> None:
    assert DEFAULT_MIN_BYTES <= default_limit_bytes() <= DEFAULT_MAX_BYTES
