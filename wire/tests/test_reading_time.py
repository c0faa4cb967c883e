"""No text of a peer takes more than linear time to read, nor more than a request may take.

A new reader is one line of ``READERS``.
"""

import struct
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.testkit.reading_time import (
    HEARTBEAT_S,
    TextReader,
    check_bound,
    check_reader,
    repeated,
)
from lanemq.wire import RemoteProtocolError, fastjson, read_number
from lanemq.wire.bodies import SubscriptionData, parse_tag_expression
from lanemq.wire.frame import MAX_FIELDS, MAX_HEADER_BYTES, decode_frame
from lanemq.wire.kv import STEPS_MAX, Action, Step, decode_steps, encode_steps
from lanemq.wire.message import (
    BatchEntry,
    count_batch,
    decode_batch,
    decode_properties,
    encode_batch,
    encode_properties,
    get_property,
    remove_property,
)
from lanemq.wire.sql92 import compile_sql

# As the broker has them; its own test checks that they are these.
EXPRESSION_CHARACTERS: Final = 16_384
PROPERTIES_BYTES: Final = 32_767
TEXT_BODY_BYTES: Final = 32 << 10
LAX_BODY_BYTES: Final = 8 << 10
BODY_BYTES: Final = 512 << 10
BODY_VALUES: Final = 1 << 15
BATCH_MESSAGES: Final = 4096


def sql(name: str, head: str, unit: str, tail: str = "") -> TextReader:
    return TextReader(f"sql {name}", repeated(head, unit, tail), compile_sql, EXPRESSION_CHARACTERS)


def lax(name: str, head: str, unit: str, tail: str = "") -> TextReader:
    return TextReader(f"lax {name}", repeated(head, unit, tail), fastjson.loads, LAX_BODY_BYTES)


SQL_CONDITIONS: Final = [
    *(f"a {operator} 1.5" for operator in ("=", "<>", "<", "<=", ">", ">=")),
    *(f"a {bounds}" for bounds in ("between 1 and 2.5", "not between 1.5 and 9")),
    *(f"{number} < a" for number in ("1", "3000000000", "1e300", "-1.5")),
    *("a = b", "a in ('1.5', '2')", "a not in ('1')", "a = true", "-a < 1.5", "a is null"),
    *("a contains '1x'", "a startswith '1'", "a endswith 'x'"),
]
VALUES: Final = [
    ("digits", "", "1", ""),
    ("digits and a letter", "", "1", "x"),
    ("digits and a suffix", "1.5", "1", "f"),
    ("zeros", "", "0", "1"),
    ("a fraction and a letter", "1.", "1", "x"),
    ("a fraction only", ".", "1", "x"),
    ("an exponent", "1e", "1", ""),
    ("an exponent and a letter", "1e", "1", "x"),
    ("hexadecimal digits", "0x", "1", ""),
    ("hexadecimal digits and a letter", "0x", "a", "x"),
    ("a hexadecimal fraction", "0x1.", "f", "x"),
    ("a hexadecimal exponent", "0x1p", "1", ""),
    ("a hexadecimal exponent and a letter", "0x1p", "1", "x"),
    ("blanks", "", " ", ""),
    ("blanks and a number", "", " ", "1"),
    ("blanks and a letter", "1", " ", "x"),
    ("points", "1", ".", ""),
    ("signs", "", "-", "1"),
    ("digits of another script", "", "\u0661", ""),
    ("digits of another script and a letter", "", "\u0661", "x"),
    ("signs of exponents", "1", "e1", ""),
    ("words", "", "NaN", ""),
]


def values(condition: str, name: str, head: str, unit: str, tail: str) -> TextReader:
    """The reader of one message's property, for an expression that compares it once."""
    selector = compile_sql(condition)
    make = repeated(head, unit, tail)
    return TextReader(
        f"{condition}: {name}",
        lambda length: encode_properties({"a": make(length - len("a\x01\x02"))}),
        selector.matches_data,
        PROPERTIES_BYTES // len(unit.encode()),
    )


def many_names(length: int) -> str:
    return "||".join(f"tag{number}" for number in range(length // 9))


def frame_of(header: bytes, serialize: int) -> bytes:
    return (serialize << 24 | len(header)).to_bytes(4) + header


def json_frame(members: str) -> bytes:
    header = '{"code":10,"language":"JAVA","version":1,"opaque":1,"flag":0,"extFields":{%s}}'
    return frame_of((header % members).encode(), 0)


def json_numbers(length: int) -> bytes:
    return json_frame(",".join(f'"{number}":1' for number in range(min(length // 12, MAX_FIELDS))))


def json_texts(length: int) -> bytes:
    return json_frame(",".join(f'"{number}":""' for number in range(length // 12)))


def json_members(length: int) -> bytes:
    return frame_of(
        b'{"code":10%s}' % b"".join(b',"%d":1' % number for number in range(length // 10)), 0
    )


def binary_frame(length: int, key: bytes = b"") -> bytes:
    field = struct.pack(">h", len(key)) + key + struct.pack(">i", 0)
    fields = field * (length // len(field))
    head = struct.pack(">hBhiiii", 10, 0, 1, 1, 0, 0, len(fields))
    return frame_of(head + fields, 1)


def batch(number: int) -> bytes:
    return encode_batch([BatchEntry(0, b"", b"")]) * number


def steps(number: int) -> bytes:
    return encode_steps([Step(b"%d" % key, Action.PUT, b"") for key in range(number)])


def names_of(text: bytes) -> None:
    get_property(text, b"ab")
    remove_property(text, b"ab")


NUMBERS: Final = {
    "ordinary": "1.5",
    "a great exponent": "1e308",
    "a great exponent with a sign": "1.5E+300",
    "a small exponent": "1e-308",
    "the smallest exponent": "5e-324",
    "an exponent of two digits": "1e23",
    "an exponent with zeros": "1e0000308",
    "an exponent out of range": "1e400",
    "no double": "1e-400",
    "a double of 17 digits": "0.016666666666666666",
    "an integer of 19 digits": "1234567890123456789",
    "an integer of 20 digits": "12345678901234567890",
    "an integer of 40 digits": "3" * 40,
    "an integer of 300 digits": "3" * 300,
    "an integer of 400 digits": "3" * 400,
    "an integer of 4,200 digits": "3" * 4200,
    "40 digits and a fraction": "3" * 40 + ".0",
    "300 digits and a fraction": "3" * 300 + ".5",
    "the greatest double, written out": "17976931348623157" + "0" * 292 + ".0",
    "half way between doubles": "9007199254740993.0",
    "nearly half way between doubles": "9007199254740993." + "0" * 30 + "1",
    "a fraction of 100 digits": "1." + "3" * 100,
    "a fraction of 800 digits": "1." + "3" * 800,
    "a long fraction with an exponent": "1." + "3" * 100 + "e-300",
    "a longer fraction with an exponent": "1." + "3" * 700 + "e-300",
    "zeros and an exponent": "1" + "0" * 250 + "e50",
    "leading zeros": "0." + "0" * 300 + "1",
    "leading zeros and an exponent": "0." + "0" * 300 + "1e-10",
    "zeros before the number": "0001",
    "zero with an exponent": "0e0",
}


def numbers(name: str, number: str) -> Iterator[TextReader]:
    """Readers of headers that are full of a number."""
    unit = number + ","
    yield TextReader(
        f"ext fields: {name}",
        lambda length: json_frame(
            ",".join(f'"{one}":{number}' for one in range(min(length // len(unit), MAX_FIELDS)))
        ),
        decode_frame,
        MAX_HEADER_BYTES,
    )
    yield TextReader(
        f"a member that nobody reads: {name}",
        lambda length: unread_member(repeated("[", unit, "1]")(length - 100)),
        decode_frame,
        MAX_HEADER_BYTES,
    )


def unread_member(value: str) -> bytes:
    return frame_of(f'{{"code":10,"opaque":1,"extFields":{{}},"x":{value}}}'.encode(), 0)


CONTAINERS: Final = {
    "arrays": "[]",
    "objects": "{}",
    "arrays of both": "[[],{}]",
    "objects of arrays": '{"a":[]}',
    "objects of texts": '{"a":"b"}',
    "texts": '""',
}


def containers(name: str, unit: str) -> Iterator[TextReader]:
    """Readers of headers that are full of arrays and objects."""
    for member in ("x", "remark", "extFields"):
        for greatest in (MAX_HEADER_BYTES, MAX_HEADER_BYTES // 4):
            yield TextReader(
                f"{name} as {member} in {greatest} bytes",
                partial(nested, member, unit),
                decode_frame,
                greatest,
            )


def nested(member: str, unit: str, length: int) -> bytes:
    value = repeated("[", unit + ",", "1]")(length - 100)
    return frame_of(f'{{"code":10,"opaque":1,"{member}":{value}}}'.encode(), 0)


READERS: Final = [
    *(reader for name, unit in CONTAINERS.items() for reader in containers(name, unit)),
    *(reader for name, number in NUMBERS.items() for reader in numbers(name, number)),
    sql("conditions", "a=1", " OR a=1"),
    sql("unfinished comments", "a=----------1", " OR a=----------1"),
    sql("minus signs", "", "-"),
    sql("minus signs apart", "", "- "),
    sql("finished comments", "a=1 ", "--\n"),
    sql("comments, and one unfinished", "--\n", "a=--1 OR ", "\n--"),
    sql("block comments", "a=1 ", "/**/"),
    sql("unfinished block comments", "a=1 ", "/**"),
    sql("stars", "a=1 /*", "* "),
    sql("lists", "a in ('x'", ",'x'", ")"),
    sql("empty texts in a list", "a in (''", ",''", ")"),
    sql("quotes", "", "'"),
    sql("a quoted quote", "a='", "''"),
    sql("parentheses", "", "("),
    sql("pairs of parentheses", "a=1", " OR ((a=1))"),
    sql("negations", "", "NOT "),
    sql("negated conditions", "not(a>1)", " or not(a>1)"),
    sql("digits", "a=", "1"),
    sql("zeros", "a=", "0"),
    sql("digits and a fraction", "a=", "1", ".5"),
    sql("a fraction", "a=1.", "1"),
    sql("an exponent", "a=1e", "1"),
    sql("fractions", "a=1.5", " or a=1.5"),
    sql("signs of numbers", "a=1", " and b=+-+-+-1"),
    sql("bounds", "a between 1 and 2", " or a between 1 and 2"),
    sql("nulls", "a is null", " or a is null"),
    sql("searches", "a contains 'x'", " or a contains 'x'"),
    sql("beginnings", "a startswith 'x'", " or a startswith 'x'"),
    sql("blanks", "a=1", " "),
    sql("a name", "", "a"),
    sql("no token", "a=1", " or a=1", "\x00"),
    TextReader("tags", repeated("a", "||a"), parse_tag_expression, EXPRESSION_CHARACTERS),
    TextReader("many tags", many_names, parse_tag_expression, EXPRESSION_CHARACTERS),
    TextReader("no tags", repeated("", "|"), parse_tag_expression, EXPRESSION_CHARACTERS),
    TextReader(
        "subscription",
        many_names,
        lambda text: SubscriptionData.of_tags("T", text),
        EXPRESSION_CHARACTERS,
    ),
    TextReader("properties", repeated("", "a\x01b\x02"), decode_properties, PROPERTIES_BYTES),
    TextReader("no properties", repeated("", "\x01\x02"), decode_properties, PROPERTIES_BYTES),
    TextReader(
        "one property",
        lambda length: b"ab\x01\x02" * (length // 4),
        names_of,
        PROPERTIES_BYTES,
    ),
    TextReader(
        "another's property",
        lambda length: b"xab\x01" * (length // 4),
        names_of,
        PROPERTIES_BYTES,
    ),
    TextReader("a number", repeated("", "1"), read_number, MAX_HEADER_BYTES),
    TextReader("JSON header, texts", json_texts, decode_frame, MAX_HEADER_BYTES),
    TextReader("JSON header, numbers", json_numbers, decode_frame, MAX_HEADER_BYTES),
    TextReader("JSON header, members", json_members, decode_frame, MAX_HEADER_BYTES),
    TextReader(
        "JSON header, one deep member",
        lambda length: json_frame('"a":' + "[" * length),
        decode_frame,
        MAX_HEADER_BYTES - 100,
    ),
    TextReader("binary header", binary_frame, decode_frame, MAX_HEADER_BYTES),
    TextReader(
        "binary header, names",
        lambda length: binary_frame(length, b"name"),
        decode_frame,
        MAX_HEADER_BYTES,
    ),
    TextReader("batch", batch, decode_batch, BATCH_MESSAGES),
    TextReader(
        "count of a batch", batch, lambda data: count_batch(data, most=1 << 20), BATCH_MESSAGES
    ),
    TextReader("steps", steps, lambda data: decode_steps("batch", data), STEPS_MAX),
    TextReader("strict numbers", lambda n: "[" + "1," * n + "1]", fastjson.loads, BODY_VALUES),
    TextReader("strict arrays", lambda n: "[" + "[]," * n + "1]", fastjson.loads, BODY_VALUES // 2),
    TextReader("strict escapes", repeated('"', "\\n", '"'), fastjson.loads, BODY_BYTES),
    TextReader("strict depth", repeated("", "["), fastjson.loads, BODY_BYTES),
    TextReader("strict blanks", repeated("[1,", " ", "1]"), fastjson.loads, BODY_BYTES),
    TextReader("is_quick", repeated("[", "1,", "x]"), fastjson.is_quick, BODY_BYTES),
    lax("names", "{", "a:1,", "a:1}"),
    lax("numbers as names", "{", "1:1,", "1:1}"),
    lax("objects as names", "{", "{}:1,", "a:1}"),
    lax("blanks", "{a:1,", " ", "}"),
    lax("digits", "{a:", "1", "}"),
    lax("a fraction", "{a:1.", "1", "}"),
    lax("a text without an end", '[{a:"', "\\n"),
    lax("backslashes", '{a:"', "\\\\", '"}'),
    lax("depth", "{a:", "["),
    lax("references", "[{a:1},", '{"$ref":"$[0]"},', "1]"),
    lax("a long path", '[1,{"$ref":"$', "[0]", '"}]'),
    lax("references as names", '{"a":{},', '{"$ref":"$.a"}:1,', '"b":1}'),
    TextReader(
        "references to references",
        lambda length: (
            "[" + ",".join(f'{{"$ref":"$[{n + 1}]"}}' for n in range(length // 17)) + "]"
        ),
        fastjson.loads,
        LAX_BODY_BYTES,
    ),
]


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_the_time_of_a_reader_is_linear_and_bounded(reader: TextReader) -> None:
    check_reader(reader)


@pytest.mark.parametrize("unit", CONTAINERS.values(), ids=CONTAINERS)
def test_a_header_has_few_arrays_and_objects(unit: str) -> None:
    decode_frame(nested("x", unit, 4 << 10))
    for length in (5 << 10, 200 << 10, MAX_HEADER_BYTES):
        with pytest.raises(RemoteProtocolError, match="are read"):
            decode_frame(nested("x", unit, length))


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("times", [1, 8])
def test_the_time_of_a_body_of_numbers_is_that_of_a_heartbeat(name: str, times: int) -> None:
    make = repeated("[", NUMBERS[name] + ",", "1]")
    check_bound(TextReader(name, make, fastjson.loads, times * BODY_BYTES), times * HEARTBEAT_S)


@pytest.mark.parametrize("number", ["1e308", "1." + "3" * 700 + "e-300"])
def test_a_number_that_is_hard_to_read_does_not_hide(number: str) -> None:
    for head in ("[", '{"a":"\\\\\\"","x":[', "{0:[", '["$ref",'):
        text = repeated(head, number + ",", "1]")(64 << 10)
        with pytest.raises(RemoteProtocolError, match="exponents"):
            fastjson.loads(text)
        with pytest.raises(RemoteProtocolError, match="exponents"):
            fastjson.is_quick(text.encode())


def test_texts_that_look_like_numbers_are_read() -> None:
    ids = [f"{number:032X},1e308" for number in range(10_000)]
    assert fastjson.loads(fastjson.dumps(ids)) == ids
    rates = [number / 9000 for number in range(8000)]
    texts = [f"{rate:.17f}" for rate in rates]
    assert fastjson.loads("[" + ",".join(texts) + "]") == [float(text) for text in texts]


@given(st.lists(st.text(alphabet='1e.5"\\[],', max_size=6), min_size=65, max_size=130))
def test_numbers_count_outside_of_strings_and_strings_do_not(texts: list[str]) -> None:
    names = [text + "1e308" for text in texts]
    assert fastjson.loads(fastjson.dumps(names)) == names
    written = [f"{fastjson.dumps(text).decode()},1e308" for text in texts]
    for end in ("]", ',"1e308', '"'):  # the last string of two is unfinished
        with pytest.raises(RemoteProtocolError, match="exponents"):
            fastjson.loads("[" + ",".join(written) + end)


@pytest.mark.parametrize("condition", SQL_CONDITIONS)
def test_the_time_of_a_condition_on_a_property_is_linear(condition: str) -> None:
    for value in VALUES:
        check_reader(values(condition, *value))


def test_terms_with_other_properties_each_take_the_time_of_a_short_text() -> None:
    names = [f"a{number:02}" for number in range(24)]  # more than are remembered
    condition = " or ".join(f"{names[term % 24]} > 1e300" for term in range(700))
    check_reader(
        TextReader(
            "terms",
            lambda length: encode_properties(dict.fromkeys(names, "1" * (length // 24 - 6))),
            compile_sql(condition).matches_data,
            PROPERTIES_BYTES,
        )
    )
