"""The route table against a model of it, rule by rule and in any order of events."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lanemq.proxy.nameserver import MasterAddresses, Registration, RouteTable
from lanemq.proxy.nameserver._topic_lists import topics_by_unit, topics_of_cluster
from lanemq.proxy.nameserver.routes._registration import is_changed
from lanemq.proxy.net._turns import all_steps
from lanemq.testkit.proxy.routes import check_invariants
from lanemq.wire import queue_ids
from lanemq.wire.bodies import DataVersion, TopicConfig

V1, V2 = DataVersion(1, 1), DataVersion(2, 2)


def register(
    table: RouteTable,
    name: str = "broker-a",
    *,
    broker_id: int = 0,
    address: str = "10.0.0.1:10911",
    cluster: str = "c",
    version: DataVersion = V1,
    topics: tuple[TopicConfig, ...] = (),
    filter_servers: tuple[str, ...] | None = (),
    now_s: float = 0.0,
    connection: int = 1,
) -> MasterAddresses:
    return table.register(
        Registration(
            cluster=cluster,
            broker_name=name,
            broker_id=broker_id,
            address=address,
            ha_address=f"ha-{address}",
            data_version=version,
            topics=topics,
            filter_servers=filter_servers,
        ),
        now_s=now_s,
        connection=connection,
    )


def topic(name: str, *, perm: int = 6, topic_sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(name, 4, 4, perm, topic_sys_flag=topic_sys_flag)


def test_no_route_has_more_queues_of_a_broker_than_clients_look_at() -> None:
    table = RouteTable()
    for count in (1_000_000, 2_000_000_000, -1):
        config = TopicConfig("T", count, count)
        register(table, version=DataVersion(count, count), topics=(config,))
        route = table.route("T")
        assert route is not None
        (queues,) = route.queue_datas
        assert queues.read_queue_nums == queues.write_queue_nums == len(queue_ids(count))


def test_a_route_has_the_queues_and_the_addresses_of_every_broker_of_the_topic() -> None:
    table = RouteTable()
    register(table, "a", address="h1:1", topics=(TopicConfig("T", 4, 8, 6, topic_sys_flag=1),))
    register(table, "b", address="h2:2", topics=(topic("T"), topic("U")))
    register(table, "b", address="h3:3", broker_id=1, topics=(topic("V"),))
    route = table.route("T")
    assert route is not None
    first, second = route.queue_datas
    assert (first.broker_name, first.read_queue_nums, first.write_queue_nums) == ("a", 4, 8)
    assert (first.perm, first.topic_sys_flag) == (6, 1)
    assert second.broker_name == "b"
    assert [dict(data.broker_addrs) for data in route.broker_datas] == [
        {0: "h1:1"},
        {0: "h2:2", 1: "h3:3"},
    ]
    assert table.route("V") is None, "a slave's topics do not count"
    assert table.route("W") is None


def test_a_registration_adds_topics_and_never_removes_any() -> None:
    table = RouteTable()
    register(table, topics=(topic("T"),))
    register(table, topics=(topic("U"),), version=V2)
    assert table.topics() == ["T", "U"]


def test_topics_are_taken_over_only_with_another_data_version() -> None:
    table = RouteTable()
    register(table, topics=(topic("T"),))
    register(table, topics=(topic("U"),))
    assert table.topics() == ["T"]
    table.delete_topic("T")
    register(table, topics=(topic("T"),))
    assert table.topics() == []
    register(table, topics=(topic("T"),), version=V2)
    assert table.topics() == ["T"]


def test_a_missing_state_version_counts_as_zero() -> None:
    assert not is_changed(DataVersion(5, 1), DataVersion(5, 1, 0))
    assert is_changed(DataVersion(5, 1), DataVersion(5, 1, 2))
    assert is_changed(DataVersion(5, 1), DataVersion(5, 2))
    assert is_changed(None, DataVersion(5, 1))


def test_a_slave_learns_where_its_master_is() -> None:
    table = RouteTable()
    assert register(table, broker_id=1, address="s:1") == MasterAddresses()
    assert register(table, address="m:1") == MasterAddresses()
    assert register(table, broker_id=1, address="s:1") == MasterAddresses("m:1", "ha-m:1")


def test_an_address_has_one_broker_id_at_a_time() -> None:
    table = RouteTable()
    register(table, address="x:1", broker_id=1)
    register(table, address="x:1", broker_id=0, topics=(topic("T"),))
    assert dict(table.cluster_info().broker_addr_table["broker-a"].broker_addrs) == {0: "x:1"}
    assert table.topics() == ["T"], "it is the first registration of a master"


def test_an_address_has_one_broker_name_at_a_time() -> None:
    table = RouteTable()
    register(table, "old", topics=(topic("T"),))
    register(table, "new", topics=(topic("U"),))
    assert list(table.cluster_info().broker_addr_table) == ["new"]
    assert table.topics() == ["U"]


def test_a_master_that_leaves_late_does_not_take_its_successor_with_it() -> None:
    table = RouteTable()
    register(table, address="old:1", topics=(topic("T"),))
    register(table, address="new:1", topics=(topic("T"),), connection=2)
    table.unregister(broker_name="broker-a", address="old:1")
    table.connection_closed(1)
    route = table.route("T")
    assert route is not None
    assert route.broker_datas[0].master_addr == "new:1"


def test_the_last_address_takes_the_topics_along() -> None:
    table = RouteTable()
    register(table, address="m:1", topics=(topic("T"),))
    register(table, address="s:1", broker_id=1)
    table.unregister(broker_name="broker-a", address="m:1")
    assert table.topics() == ["T"], "consumers may still read from the slave"
    table.unregister(broker_name="broker-a", address="s:1")
    assert table.topics() == []
    assert not table.cluster_info().cluster_addr_table


def test_a_silent_broker_expires_after_the_timeout_and_a_sign_of_life_prolongs() -> None:
    table = RouteTable()
    register(table, "a", address="a:1", now_s=0)
    register(table, "b", address="b:1", now_s=0)
    table.heard_from("b:1", now_s=60)
    table.heard_from("nobody:1", now_s=60)
    assert list(table.expire(now_s=120, timeout_s=120)) == [[]]
    assert list(table.expire(now_s=121, timeout_s=120)) == [["a:1"]]
    brokers = table.cluster_info().broker_addr_table
    assert {name: dict(broker.broker_addrs) for name, broker in brokers.items()} == {
        "b": {0: "b:1"}
    }
    check_invariants(table)


def test_only_the_connection_of_the_last_registration_counts() -> None:
    table = RouteTable()
    register(table, connection=1)
    register(table, connection=2)
    assert table.connection_closed(1) == []
    assert table.connection_closed(2) == ["10.0.0.1:10911"]


def test_write_permission_is_wiped_and_added_until_the_next_version() -> None:
    table = RouteTable()
    register(table, topics=(topic("T", perm=7), topic("U", perm=4)))

    def permissions() -> list[int]:
        routes = [table.route(name) for name in table.topics()]
        return [route.queue_datas[0].perm for route in routes if route is not None]

    assert table.wipe_write_permission("broker-a") == 2
    assert permissions() == [5, 4]
    assert table.add_write_permission("broker-a") == 2
    assert permissions() == [6, 6]
    assert table.wipe_write_permission("nobody") == 0
    register(table, topics=(topic("T", perm=7),), version=V2)
    assert permissions() == [7, 6]


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    table = RouteTable()
    register(table, "a", address="a:1", cluster="x", topics=(topic("T"),))
    register(table, "b", address="b:1", cluster="y", topics=(topic("T"), topic("U")))
    table.delete_topic("T", cluster="x")
    assert all_steps(topics_of_cluster(table, "x")) == []
    assert all_steps(topics_of_cluster(table, "y")) == ["T", "U"]
    table.delete_topic("T")
    table.delete_topic("T")
    assert table.topics() == ["U"]
    assert all_steps(topics_of_cluster(table, "nowhere")) == []


def test_unit_topics_are_told_apart_by_their_flags() -> None:
    table = RouteTable()
    names = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
    register(table, topics=tuple(topic(n, topic_sys_flag=flag) for n, flag in names.items()))
    assert all_steps(topics_by_unit(table, unit=True, unit_sub=None)) == ["unit", "both"]
    assert all_steps(topics_by_unit(table, unit=None, unit_sub=True)) == ["sub", "both"]
    assert all_steps(topics_by_unit(table, unit=False, unit_sub=True)) == ["sub"]


def test_system_topics_are_the_clusters_and_brokers_and_somebody_to_ask() -> None:
    table = RouteTable()
    assert table.system_topics() == ([], None)
    register(table, "a", address="a:1")
    register(table, "b", address="b:1")
    assert table.system_topics() == (["c", "a", "b"], "a:1")


def test_filter_servers_are_in_the_route_until_they_are_gone() -> None:
    table = RouteTable()

    def filters() -> dict[str, tuple[str, ...]]:
        route = table.route("T")
        assert route is not None
        return dict(route.filter_server_table)

    register(table, topics=(topic("T"),), filter_servers=("f:1",))
    register(table, filter_servers=None)
    assert filters() == {"10.0.0.1:10911": ("f:1",)}
    register(table, filter_servers=())
    assert filters() == {}


NAMES, IDS, ADDRESSES = st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(["h:1", "h:2"])
CONNECTIONS, TOPICS = st.integers(1, 3), st.sets(st.sampled_from("TUV"), max_size=3)


@dataclass
class Known:
    """One address in the model."""

    name: str
    broker_id: int
    connection: int
    heard_s: float


@dataclass
class Model:
    brokers: dict[str, Known] = field(default_factory=dict)

    def names(self) -> set[str]:
        return {known.name for known in self.brokers.values()}


class RouteTableMachine(RuleBasedStateMachine):
    """Registrations follow from the last event about each address, whatever came before."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.model, self.now_s = RouteTable(), Model(), 0.0

    @rule(
        name=NAMES,
        broker_id=IDS,
        address=ADDRESSES,
        connection=CONNECTIONS,
        counter=st.integers(0, 3),
        topics=TOPICS,
    )
    def registers(
        self,
        name: str,
        broker_id: int,
        address: str,
        connection: int,
        counter: int,
        topics: set[str],
    ) -> None:
        register(
            self.table,
            name,
            broker_id=broker_id,
            address=address,
            version=DataVersion(1, counter),
            topics=tuple(topic(one) for one in sorted(topics)),
            now_s=self.now_s,
            connection=connection,
        )
        brokers = self.model.brokers
        for other, known in list(brokers.items()):
            if (known.name, known.broker_id) == (name, broker_id):
                del brokers[other]
        brokers[address] = Known(name, broker_id, connection, self.now_s)

    @rule(name=NAMES, address=ADDRESSES)
    def unregisters(self, name: str, address: str) -> None:
        self.table.unregister(broker_name=name, address=address)
        known = self.model.brokers.get(address)
        if known is not None and known.name == name:
            del self.model.brokers[address]

    @rule(connection=CONNECTIONS)
    def disconnects(self, connection: int) -> None:
        gone = self.table.connection_closed(connection)
        model = self.model.brokers
        assert set(gone) == {a for a, known in model.items() if known.connection == connection}
        for address in gone:
            del model[address]

    @rule(seconds=st.sampled_from([1.0, 60.0, 121.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        steps = self.table.expire(now_s=self.now_s, timeout_s=120.0)
        gone = [address for step in steps for address in step]
        model = self.model.brokers
        assert set(gone) == {a for a, known in model.items() if self.now_s - known.heard_s > 120}
        for address in gone:
            del model[address]

    @rule(address=ADDRESSES)
    def gives_a_sign_of_life(self, address: str) -> None:
        self.table.heard_from(address, now_s=self.now_s)
        if address in self.model.brokers:
            self.model.brokers[address].heard_s = self.now_s

    @rule(name=st.sampled_from("TUV"))
    def deletes_a_topic(self, name: str) -> None:
        self.table.delete_topic(name)
        assert self.table.route(name) is None

    @invariant()
    def the_tables_agree(self) -> None:
        check_invariants(self.table)

    @invariant()
    def the_model_agrees(self) -> None:
        info = self.table.cluster_info()
        addresses = {
            address: (name, broker_id)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        }
        assert addresses == {
            address: (known.name, known.broker_id) for address, known in self.model.brokers.items()
        }
        for name in self.table.topics():
            route = self.table.route(name)
            assert route is not None
            assert {data.broker_name for data in route.queue_datas} <= self.model.names()
            assert len(route.broker_datas) == len(route.queue_datas)


TestRouteTable = RouteTableMachine.TestCase
TestRouteTable.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_logs_of_keys_are_in_no_list_but_have_a_route() -> None:
    table = RouteTable()
    register(table, topics=(topic("T"), topic("%KV%default", perm=4)))
    assert table.topics() == ["T"]
    assert all_steps(topics_of_cluster(table, "c")) == ["T"]
    assert table.route("%KV%default") is not None
