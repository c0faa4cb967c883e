"""Tags and keys by the shape of properties are those that a look by name finds."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.derive._shapes import KEYS, TAGS, UNIQ_KEY, WANTED, Shape
from lanemq.wire.message import get_property

NAMES = st.sampled_from([TAGS, UNIQ_KEY, KEYS, b"KEY", b"XTAGS", b"A.B*", b""])
VALUES = st.sampled_from([b"", b"x", b"a b", b"=\x01=", b"\xff\xfe", b"TAGS", b"(?"])
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=6)


@given(st.lists(st.tuples(PAIRS, st.sampled_from([b"", b"\x02", b"\x02\x02"])), max_size=8))
def test_any_properties_after_any_others(
    messages: list[tuple[list[tuple[bytes, bytes]], bytes]],
) -> None:
    for shape_of in messages:
        shape = Shape()
        for pairs, end in (shape_of, *messages):
            data = b"\x02".join(name + b"\x01" + value for name, value in pairs) + end
            assert shape.values(data) == tuple(get_property(data, name) for name in WANTED)


def test_a_topic_whose_properties_change_is_learnt_again() -> None:
    shape = Shape()
    first, then = b"KEYS\x01k\x02TAGS\x01t\x02", b"TAGS\x01t\x02U\x01u\x02"
    assert shape.values(first) == (b"t", None, b"k")
    for _ in range(200):
        assert shape.values(then) == (b"t", None, None)
    assert shape.values(first) == (b"t", None, b"k")


def test_a_second_unique_key_counts_in_place_of_the_first_one() -> None:
    shape = Shape()
    for number in range(3):
        data = b"UNIQ_KEY\x01A%d\x02TAGS\x01t\x02UNIQ_KEY\x01B%d\x02" % (number, number)
        assert shape.values(data) == (b"t", b"B%d" % number, None)
    for number in range(3):
        data = b"UNIQ_KEY\x01A%d\x02TAGS\x01t\x02KEYS\x01k" % number
        assert shape.values(data) == (b"t", b"A%d" % number, b"k")
