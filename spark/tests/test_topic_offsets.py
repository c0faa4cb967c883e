"""Offsets of queues: what options mean, and how ranges are cut. No cluster is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.testkit.spark import require_packages

require_packages()

from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThan  # noqa: E402
from pyspark.sql.types import IntegerType, StructType  # noqa: E402

from lanemq.spark import OptionInvalid  # noqa: E402
from lanemq.spark._options import Options  # noqa: E402
from lanemq.spark.topics import TopicSource  # noqa: E402
from lanemq.spark.topics._offsets import (  # noqa: E402
    Bounds,
    Offsets,
    QueueRange,
    limited,
    merged,
    parse_offsets,
    ranges,
    resolve,
    split,
    unknown_queues,
)
from lanemq.spark.topics._plan import OPTIONS, narrowed  # noqa: E402

pytestmark = pytest.mark.slow
KNOWN = {"T": {"a:0": Bounds(5, 20), "a:1": Bounds(0, 0)}}
queues = st.dictionaries(st.sampled_from(["a:0", "a:1", "b:0"]), st.integers(0, 50), min_size=1)
offsets = st.dictionaries(st.sampled_from(["T", "U"]), queues, min_size=1)


def parsed(text: str) -> str | Offsets:
    options = Options("rocketmq", OPTIONS, {"startingOffsets": text})
    return parse_offsets(options, "startingOffsets")


def test_offsets_are_given_as_for_kafka() -> None:
    assert resolve(parsed("Earliest"), KNOWN, otherwise="latest") == {"T": {"a:0": 5, "a:1": 0}}
    assert resolve(parsed("latest"), KNOWN, otherwise="latest") == {"T": {"a:0": 20, "a:1": 0}}
    some = parsed('{"T": {"a:0": 7}}')
    assert resolve(some, KNOWN, otherwise="latest") == {"T": {"a:0": 7, "a:1": 0}}
    words = parsed('{"T": {"a:0": -1, "a:1": -2}}')
    assert resolve(words, KNOWN, otherwise="earliest") == {"T": {"a:0": 20, "a:1": 0}}
    assert unknown_queues(parsed('{"T": {"b:0": 1}}'), KNOWN) == ["T b:0"]


@pytest.mark.parametrize(
    "text", ["soon", "[1]", '{"T": 5}', '{"T": {"a:0": -3}}', '{"T":{"a":"1"}}']
)
def test_offsets_of_another_form_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        OptionInvalid, match=r"startingOffsets=.*takes earliest, latest, or JSON as"
    ):
        parsed(text)


def test_a_query_names_topics_in_one_way_and_a_name_server() -> None:
    given_twice = {"nameserver": "h:1", "subscribe": "T", "subscribePattern": "T.*"}
    for given_options in (given_twice, {"nameserver": "h:1"}):
        with pytest.raises(OptionInvalid, match="either subscribe, or subscribePattern"):
            TopicSource(given_options).schema()
    with pytest.raises(OptionInvalid, match="rocketmq needs the option nameserver"):
        TopicSource({"subscribe": "T"}).schema()
    with pytest.raises(OptionInvalid, match=r"no option 'topics'; its options are .*subscribe"):
        TopicSource({"topics": "T"}).schema()


@given(offsets, offsets, st.integers(1, 20))
def test_cut_ranges_cover_the_same_messages(begin: Offsets, end: Offsets, least: int) -> None:
    def covered(found: list[QueueRange]) -> list[tuple[str, str, int]]:
        return sorted(
            (one.topic, one.queue, offset) for one in found for offset in range(one.begin, one.end)
        )

    whole = ranges(begin, end)
    parts = split(whole, least)
    assert covered(parts) == covered(whole)
    assert all(one.begin < one.end for one in parts)


@given(offsets, offsets, st.integers(1, 60))
def test_a_limit_holds_and_the_stream_still_comes_to_its_end(
    begin: Offsets, end: Offsets, most: int
) -> None:
    end = merged(begin, end)
    for _ in range(1000):
        step = merged(begin, limited(begin, end, most))
        count = sum(one.end - one.begin for one in ranges(begin, step))
        assert count <= most
        if not ranges(begin, end):
            return
        assert count
        begin = step
    raise AssertionError("it does not come to its end")


def test_filters_narrow_what_is_read() -> None:
    one = QueueRange("T", "a:1", 10, 20)
    assert narrowed(one, ()) == one
    assert narrowed(one, (EqualTo(("topic",), "U"),)) is None
    assert narrowed(one, (In(("queue",), (0, 2)),)) is None
    offsets = (GreaterThan(("queueOffset",), 11), LessThan(("queueOffset",), 15))
    assert narrowed(one, offsets) == one._replace(begin=12, end=15)
    assert narrowed(one, (EqualTo(("queueOffset",), 13),)) == one._replace(begin=13, end=14)
    assert narrowed(one, (EqualTo(("queueOffset",), 30),)) is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"subscribePattern": "("},
            r"subscribePattern='\(': it is not a regular expression: missing",
        ),
        (
            {"subscribe": "a", "startingTimestamp": "9" * 15},
            "startingTimestamp='9+': it takes mill",
        ),
        (
            {"subscribe": "a", "tls": "true", "tlsTrustCertificates": "/no/file"},
            "tlsTrustCertificates='/no/file': it takes a PEM file .* No such file",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_an_error_that_names_its_option(
    options: dict[str, str], told: str
) -> None:
    source = TopicSource({"nameserver": "127.0.0.1:1", "retries": "0", **options})
    with pytest.raises(OptionInvalid, match=told):
        source.reader(StructType().add("queue", IntegerType())).partitions()
