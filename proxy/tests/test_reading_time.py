"""No text of a peer takes more than linear time at a server, nor more than a request may take.

A new reader is one line of ``READERS``, a new kind of heartbeats one of ``HEARTBEATS``.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from lanemq.proxy.acl._addresses import PATTERNS_MAX, WhiteList, parse_patterns
from lanemq.proxy.acl._requests import PERMISSIONS_MAX, _checked_permissions
from lanemq.proxy.acl.users._needs import readers_at
from lanemq.proxy.acl.users._policies import Decider, Entry, PolicyType
from lanemq.proxy.acl.users._requests import ENTRIES_MAX
from lanemq.proxy.acl.users._resources import Resource, topic_need
from lanemq.proxy.broker.handlers._heartbeat_limits import GROUPS_MAX, SUBSCRIPTIONS_MAX
from lanemq.proxy.broker.handlers.sends._send_special import BATCH_MESSAGES_MAX
from lanemq.proxy.broker.settings._config import BrokerConfig
from lanemq.proxy.gateway.moves._records import is_stored_elsewhere
from lanemq.proxy.gateway.rewrites import with_producer_group
from lanemq.proxy.logical.rules._forwarding import is_half
from lanemq.proxy.nameserver._requests import wanted_indices
from lanemq.proxy.net._dispatch import (
    BODY_BYTES_MAX,
    BODY_VALUES_MAX,
    QUICK_BODY_BYTES,
    TEXT_BODY_BYTES_MAX,
    check_body,
)
from lanemq.proxy.sessions.state._consumer_filters import (
    EXPRESSION_CHARS_MAX,
    HEARTBEAT_TOKENS_MAX,
    compile_filter,
    tag_codes,
)
from lanemq.storage import parse_delay_levels
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.testkit.reading_time import (
    HEARTBEAT_S,
    REQUEST_S,
    TextReader,
    check_bound,
    check_reader,
    longest_step,
    repeated,
    slowness,
    time_s,
)
from lanemq.wire import LISTED_MAX, RequestCode, ResponseCode, decode_properties_text, fastjson
from lanemq.wire.frame import MAX_HEADER_BYTES, request
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.kv import KEY_BYTES_MAX, STEPS_MAX, OpType, Step, encode_steps
from lanemq.wire.kv import Action as Deed
from lanemq.wire.message import BatchEntry, encode_batch, encode_properties
from lanemq.wire.requests import Action, Kind
from lanemq.wire.sql92 import Selector, SqlInvalid

PROPERTIES_BYTES: Final = 32_767


CONFIG: Final = BrokerConfig()


def changed_by(text: str) -> object:
    return CONFIG.changed(decode_properties_text(text))


def indices_of(text: str) -> object:
    header = GetRouteInfo(
        topic="T", logical_queue_ids_filter=text, apply_logical_queue_ids_filter=True
    )
    return wanted_indices(header)


def sql_of(text: str) -> object:
    return compile_filter("SQL92", text)


def policies(number: int) -> Mapping[PolicyType, Mapping[Resource, Entry]]:
    entries = {}
    for one in range(number):
        resource = Resource.parse(f"Topic:T{one}*")
        assert resource is not None
        entries[resource] = Entry(resource, (Action.PUB,), (), True)
    return {PolicyType.CUSTOM: entries}


def deletes(number: int) -> bytes:
    """Return operations on the longest keys, of bytes that are no plain text."""
    return encode_steps(
        [Step(b"%04d" % one + b"\xff" * (KEY_BYTES_MAX - 4), Deed.DELETE) for one in range(number)]
    )


DECIDER: Final = Decider(
    {
        PolicyType.CUSTOM: {
            resource: Entry(resource, (Action.PUB,), (), True)
            for resource in (Resource(Kind.TOPIC, f"%KV%default/{n}", True) for n in range(10))
        }
    }
)


def rights_to_keys(body: bytes) -> None:
    frame = request(RequestCode.KV_WRITE, {"opType": OpType.BATCH}, body)
    for need in readers_at("cluster")[RequestCode.KV_WRITE](frame):
        DECIDER.decide(need, "10.0.0.1")


READERS: Final = [
    TextReader("addresses", repeated("1.1.1.1", ",1.1.1.1"), parse_patterns, PATTERNS_MAX * 8 - 1),
    TextReader(
        "listed addresses", repeated("1.1.1.{1", ",1", "}"), parse_patterns, PATTERNS_MAX * 2
    ),
    TextReader("addresses of 6", repeated("1::", ",1::"), parse_patterns, PATTERNS_MAX * 4 - 1),
    TextReader("too many addresses", repeated("", ","), parse_patterns, MAX_HEADER_BYTES),
    TextReader("braces", repeated("", "{}"), parse_patterns, MAX_HEADER_BYTES),
    TextReader("colons", repeated("", ":"), parse_patterns, MAX_HEADER_BYTES),
    TextReader(
        "an address in a white list",
        lambda number: WhiteList(parse_patterns(",".join(["1.1.1.2"] * number))),
        lambda white: white._admits("1.1.1.1"),
        PATTERNS_MAX,
    ),
    TextReader(
        "permissions",
        repeated("a=PUB", ",a=PUB"),
        _checked_permissions,
        PERMISSIONS_MAX * 6 - 1,
    ),
    TextReader(
        "a decision by policies",
        policies,
        lambda all_of_it: Decider(all_of_it).decide(topic_need("U", Action.PUB), "10.0.0.1"),
        ENTRIES_MAX,
    ),
    TextReader(
        "settings",
        lambda length: "".join(f"{number:05}=b\n" for number in range(length // 8)),
        decode_properties_text,
        TEXT_BODY_BYTES_MAX,
    ),
    TextReader("joined lines", repeated("a=", "\\\n"), decode_properties_text, TEXT_BODY_BYTES_MAX),
    TextReader("escapes", repeated("a=", "\\u0041"), decode_properties_text, TEXT_BODY_BYTES_MAX),
    TextReader("lines", repeated("", "\n"), decode_properties_text, TEXT_BODY_BYTES_MAX),
    TextReader("an unknown key", repeated("", "m", "=1"), changed_by, TEXT_BODY_BYTES_MAX),
    TextReader("an unknown key like others", repeated("", "mxa", "=1"), changed_by, 40),
    TextReader("deleteWhen", repeated("deleteWhen=0", ";0"), changed_by, TEXT_BODY_BYTES_MAX),
    TextReader("a name list", repeated("deleteWhen=0", ";x"), changed_by, TEXT_BODY_BYTES_MAX),
    TextReader("delay levels", repeated("1s", " 1s"), parse_delay_levels, TEXT_BODY_BYTES_MAX),
    TextReader(
        "a heartbeat at a proxy",
        repeated('{"x":[', "1e308,", "1]}"),
        lambda text: with_producer_group(text.encode(), "g"),
        BODY_BYTES_MAX // 4,
    ),
    TextReader("indices", repeated("[1", ",1", "]"), indices_of, LISTED_MAX * 2),
    TextReader("no indices", repeated("[", " "), indices_of, MAX_HEADER_BYTES),
    TextReader(
        "a subscription of a pull", repeated("a=1", " OR a=1"), sql_of, EXPRESSION_CHARS_MAX
    ),
    TextReader(
        "a message to forward",
        repeated("TRAN_MSG\x01true\x02", "a\x01b\x02"),
        lambda text: is_half(request(RequestCode.SEND_MESSAGE_V2, {"i": text})),
        MAX_HEADER_BYTES,
    ),
    TextReader(
        "marks of a message to forward",
        repeated("", "TRAN_MSG\x01\x02"),
        lambda text: is_half(request(RequestCode.SEND_MESSAGE_V2, {"i": text})),
        PROPERTIES_BYTES,
    ),
    TextReader(
        "a message for a moved queue",
        repeated("DELAY\x010\x02", "a\x01b\x02"),
        lambda text: is_stored_elsewhere("0", text),
        MAX_HEADER_BYTES,
    ),
    TextReader("the rights to keys", deletes, rights_to_keys, STEPS_MAX),
    TextReader("tags of a pull", repeated("a", "||a"), tag_codes, EXPRESSION_CHARS_MAX),
]


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_the_time_of_a_reader_is_linear_and_bounded(reader: TextReader) -> None:
    check_reader(reader)


# A filter on a message: the expression may be as long, and the message's properties, too.


def any_of(part: Callable[[int], str]) -> Selector:
    """Return the longest expression of such parts that is taken."""
    low, high = 1, EXPRESSION_CHARS_MAX  # parts that are taken, parts that are not
    while high - low > 1:
        number = (low + high) // 2
        try:
            compile_filter("SQL92", " OR ".join(map(part, range(number))))
        except SqlInvalid:
            high = number
        else:
            low = number
    return compile_filter("SQL92", " OR ".join(map(part, range(low))))


LONG: Final = PROPERTIES_BYTES - 5
FILTERS: Final = {
    "absent names": (lambda n: f"a{n}='x'", b"q\x01b\x02" * (LONG // 4)),
    "a long whole number": (lambda n: f"a={n + 1}", b"a\x01" + b"0" * 4200 + b"\x02"),
    "a longer number": (lambda n: f"a={n}.5", b"a\x01" + b"1" * LONG + b"\x02"),
    "a truth": (lambda n: "a=TRUE", b"a\x01" + b"T" * LONG + b"\x02"),
    "two long numbers": (
        lambda n: "a<b",
        b"a\x01" + b"1" * (LONG // 2) + b"\x02b\x01" + b"1" * (LONG // 2 - 3) + b"\x02",
    ),
    "many numbers": (
        lambda n: f"a{n % 17}={n}.5",
        b"".join(b"a%d\x01" % n + b"1" * (LONG // 17 - 5) + b"\x02" for n in range(17)),
    ),
    "short searches": (lambda n: "a contains 'aab'", b"a\x01" + b"a" * LONG + b"\x02"),
    "searches": (lambda n: "a contains 'aaaabaaaa'", b"a\x01" + b"a" * LONG + b"\x02"),
    "long searches": (
        lambda n: f"a contains '{'a' * 70}b{'a' * 70}'",
        b"a\x01" + b"a" * LONG + b"\x02",
    ),
    "texts": (lambda n: f"a='{'a' * 50}'", b"a\x01" + b"a" * LONG + b"\x02"),
    "lists": (lambda n: "a in ('a','b','c')", b"a\x01" + b"a" * LONG + b"\x02"),
}


@pytest.mark.parametrize("kind", FILTERS)
def test_a_filter_judges_one_message_in_bounded_time(kind: str) -> None:
    part, properties = FILTERS[kind]
    selector = any_of(part)
    assert not selector.matches_data(properties)
    assert time_s(selector.matches_data, properties) <= REQUEST_S * slowness()


# A heartbeat, which takes a turn of the loop as a whole


def consumers(groups: int, *subscriptions: dict[str, object]) -> dict[str, object]:
    return {
        "clientID": "c",
        "consumerDataSet": [
            {"groupName": f"g{group}", "subscriptionDataSet": list(subscriptions)}
            for group in range(groups)
        ],
    }


def subscription(topic: int, text: str = "a||b", kind: str = "TAG") -> dict[str, object]:
    return {
        "topic": f"T{topic}",
        "subString": text,
        "tagsSet": ["a", "b"] if kind == "TAG" else [],
        "codeSet": [97, 98] if kind == "TAG" else [],
        "subVersion": time.time_ns() // 1000,
        "classFilterMode": False,
        "expressionType": kind,
    }


HEARTBEATS: Final[dict[str, Callable[[], dict[str, object]]]] = {
    "groups": lambda: consumers(GROUPS_MAX),
    "too many groups": lambda: consumers(10_000),
    "producers": lambda: {
        "clientID": "c",
        "producerDataSet": [{"groupName": f"p{group}"} for group in range(GROUPS_MAX)],
    },
    "subscriptions": lambda: consumers(
        1, *(subscription(topic) for topic in range(SUBSCRIPTIONS_MAX))
    ),
    "groups with subscriptions": lambda: consumers(
        GROUPS_MAX // 2, subscription(0, "*"), subscription(1, "*")
    ),
    "tags without hashes": lambda: consumers(
        1, {"topic": "T", "subString": "||".join(f"{n:08}" for n in range(1600))}
    ),
    "expressions": lambda: consumers(
        1, *(subscription(n, f"a={n}" + " OR a=1" * 400, "SQL92") for n in range(50))
    ),
    "many expressions": lambda: consumers(
        1, *(subscription(n, f"a={n}", "SQL92") for n in range(2000))
    ),
    "expressions with a fault": lambda: consumers(
        1, *(subscription(n, f"a={n}" + " OR a=1" * 400 + "(", "SQL92") for n in range(50))
    ),
    "texts that are no expressions": lambda: consumers(
        1, *(subscription(n, "'" * (6000 + n), "SQL92") for n in range(80))
    ),
    "too long expressions": lambda: consumers(
        1, *(subscription(n, "a=1" + " OR a=1" * 2400, "SQL92") for n in range(28))
    ),
}


@pytest.mark.parametrize("has_accounts", [False, True], ids=["open", "accounts"])
@pytest.mark.parametrize("kind", HEARTBEATS)
async def test_a_heartbeat_takes_short_turns(tmp_path: Path, kind: str, has_accounts: bool) -> None:
    account = ("operator", "its-secret") if has_accounts else None
    accounts = tmp_path / "conf" / "plain_acl.yml"
    accounts.parent.mkdir()
    accounts.write_text("accounts: [{accessKey: operator, secretKey: its-secret, admin: true}]")
    taken: list[float] = []
    async with open_test_broker(
        tmp_path / "store", acl_enable=has_accounts, rocketmq_home=tmp_path
    ) as broker:
        for _ in range(8):
            client = broker.connect(account=account)
            body = fastjson.dumps(HEARTBEATS[kind](), standard=True)
            assert len(body) <= BODY_BYTES_MAX
            async with longest_step(taken):
                await client.call(RequestCode.HEART_BEAT, body=body)
            if taken[-1] <= HEARTBEAT_S * slowness():
                return
    raise AssertionError(f"{kind}: {taken}")


async def test_groups_that_a_heartbeat_makes_take_turns(tmp_path: Path) -> None:
    taken: list[float] = []
    async with open_test_broker(tmp_path) as broker:
        for number in range(8):
            client = broker.connect()
            groups = {f"g{number}-{group}": {"T": "*"} for group in range(1400)}
            async with longest_step(taken):
                assert (await client.heartbeat(f"c{number}", consumers=groups)).code == 0
            assert broker.context.clients.consumer_group(f"g{number}-1399") is not None
            if taken[-1] <= HEARTBEAT_S * slowness():
                break
        else:
            raise AssertionError(taken)
        assert broker.context.topics.get("%RETRY%g0-1399") is not None


async def test_a_batch_takes_a_short_turn(tmp_path: Path) -> None:
    taken: list[float] = []
    async with open_test_broker(
        tmp_path, max_index_num=100_000, mapped_file_size_commit_log=32 << 20
    ) as broker:
        client = broker.connect()
        entries = [
            BatchEntry(0, bytes(100), encode_properties({"KEYS": f"k{n}", "TAGS": "a"}))
            for n in range(BATCH_MESSAGES_MAX)
        ]
        for _ in range(8):
            async with longest_step(taken):
                assert (await client.send(body=encode_batch(entries), batch=True)).code == 0
            if taken[-1] <= HEARTBEAT_S * slowness():
                return
    raise AssertionError(taken)


async def test_a_heartbeat_with_too_much_sql_registers_nothing(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        body = fastjson.dumps(HEARTBEATS["expressions"](), standard=True)
        refused = await client.call(RequestCode.HEART_BEAT, body=body)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert str(HEARTBEAT_TOKENS_MAX) in (refused.remark or "")
        assert broker.context.clients.consumer_group("g0") is None
        assert broker.context.budget.used_bytes == 0


NUMBERS: Final = {
    "integers of 18 digits": "123456789012345678",
    "integers of 40 digits": "3" * 40,
    "integers of 279 digits": "3" * 279,
    "fractions": "1.5",
    "fractions of 16 characters": "0.12345678901234",
    "fractions of 20 characters": "0.016666666666666666",
    "half way between doubles": "9007199254740993.0",
    "fractions of 270 digits": "0." + "3" * 270,
    "texts that look like numbers": '"0.5"',
    "addresses": '"10.12.13.14:10911"',
}


@pytest.mark.parametrize("unit", NUMBERS.values(), ids=NUMBERS)
def test_the_body_of_a_request_full_of_numbers_takes_little_time(unit: str) -> None:
    """It is looked at, and then read."""

    def read(body: bytes) -> object:
        check_body(request(RequestCode.LOCK_BATCH_MQ, {}, body), is_json=True)
        return fastjson.loads(body)

    def full(length: int) -> bytes:
        parts = min(length // (len(unit) + 1), BODY_VALUES_MAX * length // BODY_BYTES_MAX - 2)
        return ("[" + f"{unit}," * (parts - 1) + f"{unit}]").encode()

    check_bound(TextReader(unit[:9], full, read, BODY_BYTES_MAX), 2 * REQUEST_S)


def test_bodies_that_clients_send_may_have_some_fractions_and_many_addresses() -> None:
    for unit in ('"10.1.2.3:10911@1.5e3"', "1234567890123456789"):
        body = f"[{','.join([unit] * 20_000)},{','.join(['0.25'] * 200)}]".encode()
        check_body(request(RequestCode.LOCK_BATCH_MQ, {}, body), is_json=True)


def test_the_limits_of_the_readers_in_wire_are_these() -> None:
    assert EXPRESSION_CHARS_MAX == 16_384
    assert QUICK_BODY_BYTES == 8 << 10
    assert BODY_VALUES_MAX == 1 << 15
    assert BATCH_MESSAGES_MAX == 4096
