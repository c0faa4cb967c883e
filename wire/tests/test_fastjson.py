"""fastjson's dialect: what strict JSON says means the same, and the rest is read as well."""

import json
import tracemalloc
from contextlib import suppress
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError, RemoteProtocolError, fastjson
from lanemq.wire.fastjson import Shape
from lanemq.wire.fastjson._reader import MAX_DEPTH, _Parser

TEXT = st.text(st.characters(codec="utf-8"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


class Queue:
    """A key or a value that is an object on the wire."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id

    def to_json(self) -> dict[str, object]:
        return {"queueId": self.queue_id, "topic": "T", "none": None}


def without_null_members(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_null_members(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_null_members(item) for item in value]
    return value


@given(VALUES)
def test_strict_json_is_read_the_same_by_both_readers(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert fastjson.loads(text) == _Parser(text).read() == value


@given(VALUES, st.booleans(), st.booleans())
def test_what_is_written_is_read_back_but_for_null_members(
    value: object, standard: bool, pretty: bool
) -> None:
    written = fastjson.dumps(value, standard=standard, pretty=pretty)
    assert fastjson.loads(written) == without_null_members(value)
    assert json.loads(written) == without_null_members(value)


@given(st.binary() | st.text('{}[]":,0-9truefalsn $.\\@e').map(str.encode))
def test_garbage_is_only_ever_a_remote_protocol_error(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        fastjson.loads(data)


@given(VALUES, st.data())
def test_references_into_any_value_resolve_or_are_refused(
    value: object, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(["$", "@", "..", "$.a", "$[0]", "$.x[0].a"]) | TEXT)
    with suppress(RemoteProtocolError):
        fastjson.loads(json.dumps({"x": [value, {"$ref": path}], "a": value}))


def test_bare_integer_keys_are_read_as_text() -> None:
    assert fastjson.loads('{"brokerAddrs":{0:"a:1", -1 : "b:2"}}') == {
        "brokerAddrs": {"0": "a:1", "-1": "b:2"}
    }


def test_quoted_integer_keys_are_the_same() -> None:
    assert fastjson.loads(b'{"0":"a"}') == fastjson.loads(b'{0:"a"}')


def test_object_keys_become_their_strict_json() -> None:
    text = '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5,{"m":{1:2}}:6}}'
    assert fastjson.loads(text) == {
        "offsetTable": {'{"brokerName":"b","queueId":0,"topic":"T"}': 5, '{"m":{"1":2}}': 6}
    }


def test_string_keys_stay_as_they_are() -> None:
    text = json.dumps({json.dumps({"queueId": 0}): 5})
    assert fastjson.loads(text) == {'{"queueId": 0}': 5}


def test_bare_words_are_keys() -> None:
    assert fastjson.loads("{code:1,$x_1:2}") == {"code": 1, "$x_1": 2}


def test_a_path_from_the_root_is_resolved_to_the_very_same_object() -> None:
    value: Any = fastjson.loads(
        '{"consumerDataSet":[{"subscriptionDataSet":[{"topic":"T"}]},'
        '{"subscriptionDataSet":[{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}]}]}'
    )
    first, second = value["consumerDataSet"]
    assert second["subscriptionDataSet"][0] is first["subscriptionDataSet"][0]


def test_a_reference_may_come_before_what_it_names_and_name_another() -> None:
    value: Any = fastjson.loads('{"a":{"$ref":"$.b"},"b":{"$ref":"$.c"},"c":[1]}')
    assert value == {"a": [1], "b": [1], "c": [1]}


def test_names_in_a_path_may_be_escaped_and_keys_may_be_numbers() -> None:
    value: Any = fastjson.loads(
        r'{"%RETRY%g.x":{"1":{"v":1}},"r":{"$ref":"$.%RETRY%g\\.x[1]"},"s":{"$ref":"$.r"}}'
    )
    assert value["r"] == value["s"] == {"v": 1}


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"self":{"$ref":"@"}}}',
        '{"a":{"up":{"$ref":".."}}}',
        '{"r":{"$ref":"$"}}',
        '[[{"$ref":"$"}]]',
        '{"a":{"b":{"$ref":"$.c"}},"c":[{"$ref":"$.a"}]}',
        '{"a":{"$ref":"$.b"},"b":{"c":{"$ref":"$.a"}}}',
        '{"a":[{"$ref":"$.a"}],"t":{{"$ref":"$.a"}:1}}',
        '{"t":{{"$ref":"$.t"}:1}}',
    ],
)
def test_a_value_that_would_contain_itself_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        fastjson.loads(text)


def doubling(levels: int, *, start: str = '"x"') -> str:
    """Each member holds the one before twice."""
    members = [f'"a0":[{start}]'] + [
        f'"a{n}":[{{"$ref":"$.a{n - 1}"}},{{"$ref":"$.a{n - 1}"}}]' for n in range(1, levels)
    ]
    return "{" + ",".join(members) + "}"


def test_references_may_share_but_stand_for_a_bounded_text_only() -> None:
    value: Any = fastjson.loads(doubling(10))
    assert value["a9"][0][0] is value["a9"][1][0]
    for text in (
        doubling(40),
        doubling(90),
        doubling(16, start=json.dumps("x" * 1000)),
        '{"a":["' + "x" * 100_000 + '"],"b":[' + ",".join(['{"$ref":"$.a"}'] * 1000) + "]}",
        '{"a":["'
        + "x" * 100_000
        + '"],"t":{'
        + ",".join(f'{{"$ref":"$.c{n}"}}:1' for n in range(300))
        + "},"
        + ",".join(f'"c{n}":[{{"$ref":"$.a"}},{n}]' for n in range(300))
        + "}",
    ):
        with pytest.raises(RemoteProtocolError, match="were its references written out"):
            fastjson.loads(text)


def test_references_nest_no_deeper_than_anything_else() -> None:
    chain = ",".join(f'"a{n}":[{{"$ref":"$.a{n + 1}"}}]' for n in range(MAX_DEPTH + 5))
    with pytest.raises(RemoteProtocolError, match="nests deeper"):
        fastjson.loads(f'{{{chain},"a{MAX_DEPTH + 5}":[1]}}')


def test_following_references_is_bounded() -> None:
    # Each leads to the next, over a path as long as all of them together.
    hops = ",".join(f'{{"$ref":"$.{"x" * 4000}[{n + 1}]"}}' for n in range(99))
    many = ",".join([f'{{"$ref":"$.{"x" * 4000}[0]"}}'] * 400)
    with pytest.raises(RemoteProtocolError, match="too many references"):
        fastjson.loads(f'{{"{"x" * 4000}":[{hops},[1]],"m":[{many}]}}')


def test_an_index_of_any_length_is_refused_in_one_way() -> None:
    for digits in ("9" * 5000, "1" + "0" * 5000):
        with pytest.raises(RemoteProtocolError, match="leads nowhere"):
            fastjson.loads(f'{{"a":[1],"b":{{"$ref":"$.a[{digits}]"}}}}')


def test_keys_that_are_objects_do_not_nest() -> None:
    assert fastjson.loads("{{a:1}:1}") == {'{"a":1}': 1}
    with pytest.raises(RemoteProtocolError, match="without objects as keys"):
        fastjson.loads("{" * 30 + "a" + ":1}" * 30)


def test_a_reference_as_an_object_key_is_resolved() -> None:
    text = '{"mqs":[{"queueId":0}],"table":{{"$ref":"$.mqs[0]"}:5,{"queueId":1}:6}}'
    value: Any = fastjson.loads(text)
    assert value["table"] == {'{"queueId":0}': 5, '{"queueId":1}': 6}


@pytest.mark.parametrize(
    "path", ["$.b", "$.a[1]", "$.a[", "$x", "a", "", "$.self", "..", "$.n.x", "$.a[99999999999]"]
)
def test_a_reference_that_leads_nowhere_is_refused(path: str) -> None:
    text = json.dumps({"a": [0], "n": 1, "self": {"$ref": path}})
    with pytest.raises(RemoteProtocolError, match="reference"):
        fastjson.loads(text)


@pytest.mark.parametrize("member", ['"$ref":5', '"$ref":"$","more":1'])
def test_an_object_that_only_looks_like_a_reference_is_an_object(member: str) -> None:
    text = f"{{{member}}}"
    assert fastjson.loads(text) == json.loads(text)
    with pytest.raises(RemoteProtocolError, match="beside its reference"):
        fastjson.loads(f"{{{text}:1}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a value at character 0, found the end"),
        ("{", "expected a key"),
        ('{"a"', "expected ':'"),
        ('{"a":', "expected a value"),
        ('{"a":1', "',' or '}'"),
        ("[1", "',' or ']'"),
        ("[1 2]", "',' or ']' at character 3, found '2]'"),
        ("[1,]", "expected a value"),
        ('"a', "a string with an end"),
        (r'["\q"]', "a string with valid escapes"),
        ("1x", "the end of the text at character 1"),
        ("[1e999,a]", "a number in range"),
        ("{1:'a'}", "expected a value at character 3"),
        ('{1:"\udc80"}', "not UTF-8 at byte 4"),
    ],
)
def test_what_is_no_json_is_refused_by_place(text: str, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        fastjson.loads(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("{0:", "}")])
def test_nesting_has_a_limit(opening: str, closing: str) -> None:
    deepest = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
    fastjson.loads(deepest)
    for levels in (1, 800, 100_000):
        with pytest.raises(RemoteProtocolError, match=r"nests deeper|arrays and objects"):
            fastjson.loads(opening * levels + deepest + closing * levels)
    with pytest.raises(RemoteProtocolError):
        fastjson.loads("{" * 100_000)


@pytest.mark.parametrize("unit", ["{},", "[],", "[[],{}],", '{"a":1},', "1,"])
def test_values_have_a_limit_before_any_is_made(unit: str) -> None:
    text = "[" + unit * (1 << 18) + "1]"
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="values"):
            fastjson.loads(text)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text)
    finally:
        tracemalloc.stop()


def test_a_file_of_the_servers_is_read_whatever_its_values() -> None:
    text = "[" + "{}," * 100_000 + "1e308," * 100 + "1]"
    with pytest.raises(RemoteProtocolError):
        fastjson.loads(text)
    value: Any = fastjson.loads(text, is_own=True)
    assert len(value) == 100_101


def test_dense_bodies_of_brokers_are_below_the_limits() -> None:
    offsets = {f"t{n}@g": dict.fromkeys(range(8), 0) for n in range(100_000)}
    text = fastjson.dumps({"offsetTable": offsets})
    Shape(0, 0, 0).plus(text).check()
    wide = fastjson.dumps({"offsetTable": {f"t{n}@g": dict.fromkeys(range(2048), 0) for n in "ab"}})
    for times in (1, 100):
        Shape(0, 0, 0).plus(times * wide).check()


def test_many_brackets_are_no_depth() -> None:
    value: list[list[int]] = [[] for _ in range(1000)]
    assert fastjson.loads(json.dumps(value)) == value


@given(
    st.recursive(
        st.text(alphabet='[]{}"\\ax', max_size=4) | st.integers() | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(alphabet="[]{}a", max_size=2), inner, max_size=3)
        ),
        max_leaves=40,
    ),
    st.integers(0, 8),
)
def test_depth_is_told_whatever_strings_look_like(value: object, most: int) -> None:
    def depth(value: object) -> int:
        if isinstance(value, dict):
            value = list(value.values())
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    text = json.dumps([value] + [[]] * 20)  # more brackets than levels
    if depth(value) + 1 <= most:
        assert fastjson.loads(text, max_depth=most) == [value] + [[]] * 20
    elif most:
        with pytest.raises(RemoteProtocolError, match=f"deeper than {most} levels"):
            fastjson.loads(text, max_depth=most)


def test_length_has_a_limit() -> None:
    with pytest.raises(RemoteProtocolError, match="at most 9"):
        fastjson.loads(b'"12345678"', max_bytes=9)
    assert fastjson.loads(b'"1234567"', max_bytes=9) == "1234567"


def test_integer_keys_are_written_bare_for_old_clients_and_quoted_for_others() -> None:
    value = {"brokerAddrs": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}}
    assert fastjson.dumps(value) == (b'{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}}')
    assert json.loads(fastjson.dumps(value, standard=True)) == {
        "brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}
    }


def test_object_keys_are_written_as_objects_for_old_clients_and_as_text_for_others() -> None:
    value = {Queue(0): 5, Queue(1): Queue(2)}
    assert fastjson.dumps(value) == (
        b'{{"queueId":0,"topic":"T"}:5,{"queueId":1,"topic":"T"}:{"queueId":2,"topic":"T"}}'
    )
    assert json.loads(fastjson.dumps(value, standard=True)) == {
        '{"queueId":0,"topic":"T"}': 5,
        '{"queueId":1,"topic":"T"}': {"queueId": 2, "topic": "T"},
    }


def test_one_object_in_two_places_is_written_twice() -> None:
    shared = {"topic": "T"}
    assert fastjson.dumps([shared, shared]) == b'[{"topic":"T"},{"topic":"T"}]'


def test_scalars_are_written_as_java_writes_them() -> None:
    class Code(IntEnum):
        SIX = 6

    value = [True, False, None, 0.0, float("nan"), Code.SIX, 2**63 - 1, "é\n"]
    assert fastjson.dumps(value) == (
        '[true,false,null,0.0,null,6,9223372036854775807,"é\\n"]'.encode()
    )


def test_the_layout_of_a_configuration_file() -> None:
    value = {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1795234469471},
        "empty": {},
        "groupTopicMap": {"g": ["T", "U"]},
        "none": None,
        "offsetTable": {"BenchT2@some_group": {0: 640, 1: 800}, "T@g": {0: 2}},
    }
    assert fastjson.dumps(value, pretty=True).decode() == (
        "{\n"
        '\t"dataVersion":{\n'
        '\t\t"counter":0,\n'
        '\t\t"stateVersion":0,\n'
        '\t\t"timestamp":1795234469471\n'
        "\t},\n"
        '\t"empty":{},\n'
        '\t"groupTopicMap":{\n'
        '\t\t"g":["T","U"]\n'
        "\t},\n"
        '\t"offsetTable":{\n'
        '\t\t"BenchT2@some_group":{0:640,1:800\n'
        "\t\t},\n"
        '\t\t"T@g":{0:2\n'
        "\t\t}\n"
        "\t}\n"
        "}"
    )


@pytest.mark.parametrize("value", [object(), {1.5: 1}, {True: 1}, {None: 1}, b"x", "\ud800"])
def test_what_has_no_json_form_is_our_own_mistake(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="no JSON"):
        fastjson.dumps(value)


def test_a_value_that_contains_itself_is_our_own_mistake() -> None:
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(LocalProtocolError, match="no JSON form"):
        fastjson.dumps(ring)


@given(st.dictionaries(TEXT, VALUES.filter(lambda value: value is not None), max_size=5))
def test_an_object_put_together_from_written_members_is_the_same(members: dict[str, Any]) -> None:
    named = [fastjson.dump_named(name, value, levels=2) for name, value in members.items()]
    whole = {"a": 1, "b": fastjson.WrittenObject(named, levels=2), "c": []}
    plain = fastjson.dumps({"a": 1, "b": members, "c": []}, pretty=True)
    assert fastjson.dumps(whole, pretty=True) == plain
    assert b"".join(fastjson.dump_parts(whole, pretty=True)) == plain


@pytest.mark.parametrize("members", [[], [b""], [b'"a":1'], [b'"a":1', b"", b'"b":[2],"c":3']])
def test_an_object_in_parts_is_written_as_any_other(members: list[bytes]) -> None:
    parts = fastjson.WrittenParts(b"{", members, b"}")
    plain = fastjson.loads(b"{" + b",".join(one for one in members if one) + b"}")
    assert fastjson.dumps([{"x": parts}]) == fastjson.dumps([{"x": plain}])
