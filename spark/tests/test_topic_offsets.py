"""Offsets of queues: what options mean, and how ranges are cut. No cluster is asked."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from lanemq.testkit.spark import require_packages

require_packages()

from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThan  # noqa: E402
from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: E402
from pyspark.sql.types import IntegerType, StructType  # noqa: E402

from lanemq.spark import OptionInvalid, SourceError  # noqa: E402
from lanemq.spark._options import Options  # noqa: E402
from lanemq.spark.topics import Cluster, TopicSource  # noqa: E402
from lanemq.spark.topics._offsets import (  # noqa: E402
    Bounds,
    Known,
    Offsets,
    QueueRange,
    Times,
    limited,
    merged,
    parse_offsets,
    ranges,
    resolve,
    shares,
    split,
    unknown_queues,
)
from lanemq.spark.topics._plan import OPTIONS, Plan, narrowed  # noqa: E402
from lanemq.spark.topics._read import RangePart  # noqa: E402
from lanemq.spark.topics._source import TopicReader  # noqa: E402
from lanemq.spark.topics._stream import TopicStreamReader  # noqa: E402

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
        with pytest.raises(OptionInvalid, match="either subscribe, or subscribePattern, or as"):
            TopicSource(given_options).schema()
    with pytest.raises(OptionInvalid, match="rocketmq needs the option nameserver"):
        TopicSource({"subscribe": "T"}).schema()
    with pytest.raises(OptionInvalid, match=r"no option 'topics'; its options are .*subscribe"):
        TopicSource({"topics": "T"}).schema()


def batch(monkeypatch: pytest.MonkeyPatch, **options: str) -> TopicReader:
    """Return a query of one batch over ``KNOWN``."""
    source = TopicSource({"nameserver": "h:1", "subscribe": "T", **options})

    async def checked(*_: object) -> Known:
        return KNOWN

    def run(_: Cluster, ask: Callable[[Any], Awaitable[object]]) -> object:
        return trio.run(ask, None)

    monkeypatch.setattr(Plan, "checked", checked)
    monkeypatch.setattr(Cluster, "run", run)
    return source.reader(StructType().add("queue", IntegerType()))


def json_of(offset: int) -> str:
    return json.dumps({"T": {"a:0": offset}})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"startingOffsets": json_of(21)},
            "startingOffsets has offset 21, and queue a:0 of T ends at 20",
        ),
        (
            {"endingOffsets": json_of(4)},
            "endingOffsets has offset 4, and the oldest message of queue a:0 of T is 5",
        ),
    ],
)
def test_offsets_that_are_not_there_are_an_error_or_a_warning(
    options: dict[str, str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(SourceError, match=f"{why}.*; failOnDataLoss=false reads"):
        batch(monkeypatch, **options).partitions()
    assert batch(monkeypatch, **options, failOnDataLoss="false").partitions() == []
    assert why in caplog.text
    at_the_edges = {"startingOffsets": json_of(20), "endingOffsets": json_of(20)}
    assert batch(monkeypatch, **at_the_edges).partitions() == []
    assert batch(monkeypatch, endingOffsets=json_of(5)).partitions() == []


def test_a_start_behind_the_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed = {"startingOffsets": json_of(9), "endingOffsets": json_of(7)}
    for more in ({}, {"failOnDataLoss": "false"}):
        with pytest.raises(SourceError, match="a:0 of T would be read from offset 9 to before 7"):
            batch(monkeypatch, **crossed, **more).partitions()
    with pytest.raises(OptionInvalid, match="startingTimestamp='9': endingTimestamp=5 is before"):
        plan(startingTimestamp="9", endingTimestamp="5")
    assert plan(startingTimestamp="5", endingTimestamp="5").since_ms == 5


def test_words_by_which_a_batch_would_read_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, word in (("startingOffsets", "latest"), ("endingOffsets", "Earliest")):
        with pytest.raises(OptionInvalid, match=f"{name}='{word}': nothing is read so"):
            batch(monkeypatch, **{name: word})


def test_a_stream_begins_at_offsets_that_are_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch(monkeypatch)
    behind = {"startingOffsets": json_of(21)}
    with pytest.raises(SourceError, match="startingOffsets has offset 21, and queue a:0 of T ends"):
        stream(KNOWN, monkeypatch, **behind).initialOffset()
    reader = stream(KNOWN, monkeypatch, **behind, failOnDataLoss="false")
    start = reader.initialOffset()
    assert "startingOffsets has offset 21" in caplog.text
    parts = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert [one.wanted for one in parts if isinstance(one, RangePart)] == [
        QueueRange("T", "a:0", 5, 20)
    ]


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
    assert len(parts) == max(len(whole), min(least, len(covered(whole))))


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


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(0, 3000))
def test_shares_are_exact_and_in_proportion(sizes: list[int], over: int) -> None:
    whole = len(sizes) + over
    found = shares(sizes, whole)
    assert sum(found) == min(whole, sum(sizes))
    assert all(1 <= share <= size for share, size in zip(found, sizes, strict=True))
    for share, size in zip(found, sizes, strict=True):
        for other, its_size in zip(found, sizes, strict=True):
            assert size <= its_size or share >= other


@given(st.integers(2, 12), st.integers(1, 11), st.integers(0, 100))
def test_no_queue_starves_if_a_batch_has_fewer_messages_than_there_are_queues(
    count: int, most: int, seed: int
) -> None:
    begin = {"T": {f"a:{number}": seed * number % 7 for number in range(count)}}
    end = {"T": {queue: offset + 1000 for queue, offset in begin["T"].items()}}
    at = begin
    for _ in range(count):
        at = merged(at, limited(at, end, most))
    assert all(at["T"][queue] > begin["T"][queue] for queue in begin["T"])


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


@pytest.mark.parametrize(
    "expression", ["price > 100", "paid|open", "paid,open", "a b", "colour=red", "paid && open"]
)
def test_tags_that_no_message_has_are_refused(expression: str) -> None:
    with pytest.raises(
        OptionInvalid, match=r"filterExpression='.*as A \|\| B, and a condition as sql:"
    ):
        plan(filterExpression=expression)
    with pytest.raises(OptionInvalid, match="a tag expression without a tag"):
        plan(filterExpression=" || ")


@pytest.mark.parametrize("expression", ["*", "paid", " paid || open ", "paid||open", "größe-1.a:b"])
def test_tags_are_taken_as_they_are(expression: str) -> None:
    assert plan(filterExpression=expression).expression == expression


def plan(**options: str) -> Plan:
    given = {"nameserver": "h:1", "subscribe": "T", **options}
    given = {name: value for name, value in given.items() if value}
    return Plan.of(Options("rocketmq", OPTIONS, given), default_start="earliest")


def test_times_stand_in_place_of_offsets() -> None:
    both = plan(startingTimestamp="5", endingTimestamp="9")
    assert (both.starting, both.ending) == (Times(5, {}), Times(9, {}))
    assert both.since_ms == 5
    by_queue = plan(startingOffsetsByTimestamp='{"T": {"a:0": 7}}')
    assert by_queue.starting == Times(None, {"T": {"a:0": 7}})
    by_queue = plan(endingOffsetsByTimestamp='{"T": {"a:0": 7}}')
    assert by_queue.ending == Times(None, {"T": {"a:0": 7}})
    assert plan().ending == "latest"
    with pytest.raises(OptionInvalid, match="endingTimestamp='9': endingOffsets is given as well"):
        plan(endingTimestamp="9", endingOffsets="latest")
    with pytest.raises(OptionInvalid, match=r"startingOffsetsByTimestamp=.*takes JSON as"):
        plan(startingOffsetsByTimestamp='{"T": {"a:0": -7}}')


@pytest.mark.parametrize("text", ["T", "[1]", "{}", '{"T": [0]}', '{"T": "a"}', '{"T": ["a"]}'])
def test_assigned_queues_are_named_in_full(text: str) -> None:
    assert plan(subscribe="", assign='{"T": ["a:0", "a:1", "a:0"]}').assigned == {
        "T": ["a:0", "a:1"]
    }
    with pytest.raises(OptionInvalid, match=r"assign=.*takes JSON as"):
        plan(subscribe="", assign=text)
    with pytest.raises(OptionInvalid, match="give either subscribe, or subscribePattern, or as"):
        plan(assign='{"T": ["a:0"]}')


def test_durations_are_numbers_with_units() -> None:
    for text, seconds in (("15m", 900), ("2 h", 7200), ("500", 0.5), ("1D", 86400)):
        options = Options("rocketmq", OPTIONS, {"maxTriggerDelay": text})
        assert options.duration_s("maxTriggerDelay") == seconds
    for text in ("soon", "-1s", "1 week", "m"):
        options = Options("rocketmq", OPTIONS, {"maxTriggerDelay": text})
        with pytest.raises(OptionInvalid, match=r"maxTriggerDelay=.*takes a time as"):
            options.duration_s("maxTriggerDelay")


def stream(known: Known, monkeypatch: pytest.MonkeyPatch, **options: str) -> TopicStreamReader:
    source = TopicSource({"nameserver": "h:1", "subscribe": "T", **options})
    reader = source.streamReader(StructType().add("queue", IntegerType()))
    monkeypatch.setattr(TopicStreamReader, "_known", lambda _: known)
    return reader


@pytest.mark.parametrize(
    "options",
    [
        {"secretKey": "s"},
        {"accessKey": "a"},
        {"securityToken": "t"},
        {"tlsTrustCertificates": "/etc/ca.pem"},
    ],
)
def test_options_that_protect_nothing_alone_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionInvalid, match=r"are given together|needs tls=true"):
        plan(**options)


def test_limits_of_batches_fit_each_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OptionInvalid, match="maxTriggerDelay='1m': it needs minOffsetsPerTrigger"):
        stream(KNOWN, monkeypatch, maxTriggerDelay="1m")
    limits = {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}
    with pytest.raises(OptionInvalid, match="minOffsetsPerTrigger='9': maxOffsetsPerTrigger=8 is"):
        stream(KNOWN, monkeypatch, **limits)
    batch(monkeypatch, groupId="G", maxOffsetsPerTrigger="8")
    assert "options without effect on a batch: maxOffsetsPerTrigger, groupId" in caplog.text


def test_a_small_batch_waits_for_more_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("lanemq.spark.topics._stream.time.monotonic", lambda: now[0])
    known = {"T": {"a:0": Bounds(0, 8), "a:1": Bounds(0, 5)}}
    start = {"T": {"a:0": 0, "a:1": 0}}
    reader = stream(known, monkeypatch, minOffsetsPerTrigger="20", maxTriggerDelay="1m")
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    now[0] += 61
    whole = {"T": {"a:0": 8, "a:1": 5}}
    assert reader.latestOffset(start, ReadAllAvailable()) == whole
    known["T"]["a:1"] = Bounds(0, 10)
    assert reader.latestOffset(whole, ReadAllAvailable()) == whole
    known["T"]["a:1"] = Bounds(0, 25)
    assert reader.latestOffset(whole, ReadAllAvailable()) == {"T": {"a:0": 8, "a:1": 25}}
    known["T"]["a:1"] = Bounds(0, 26)
    reader.prepareForTriggerAvailableNow()  # such a query ends: it waits for nothing
    assert reader.latestOffset(whole, ReadAllAvailable()) == {"T": {"a:0": 8, "a:1": 26}}
