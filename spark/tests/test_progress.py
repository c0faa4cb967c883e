"""Metrics of a stream are those of the offsets in its progress."""

import json
from typing import Any

import pytest

from lanemq.spark import progress_metrics

START = {"orders": {"a:0": 0, "a:1": 0}}


def progress(**offsets: Any) -> dict[str, Any]:  # noqa: ANN401 - what a source reports
    kafka = {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 500}}}
    rate = {"endOffset": 3, "latestOffset": None}
    return {"sources": [kafka, rate, offsets]}


@pytest.mark.parametrize("form", [json.dumps, lambda value: value])
def test_queues_are_counted_from_the_end_of_the_batch(form: Any) -> None:  # noqa: ANN401 - either
    end = {"orders": {"a:0": 10, "a:1": 20}, "gone": {"a:0": 5}}
    latest = {"orders": {"a:0": 14, "a:1": 20, "b:0": 8}}
    found = progress_metrics(progress(endOffset=form(end), latestOffset=form(latest)))
    assert found == {
        "avgOffsetsBehindLatest": 4,
        "maxOffsetsBehindLatest": 8,  # a queue that is new counts from its first offset on
        "minOffsetsBehindLatest": 0,
    }


def test_a_topic_that_was_made_again_is_not_behind_by_less_than_nothing() -> None:
    again = progress(endOffset={"orders": {"a:0": 9}}, latestOffset={"orders": {"a:0": 2}})
    assert progress_metrics(again)["maxOffsetsBehindLatest"] == 0


@pytest.mark.parametrize("latest", ["None", "null", None])
def test_nothing_is_reported_before_ends_are_known(latest: str | None) -> None:
    assert progress_metrics(progress(endOffset=START, latestOffset=latest)) == {}
    assert progress_metrics({"sources": []}) == {}


def test_a_batch_without_an_end_counts_from_its_start() -> None:
    found = progress(startOffset=START, endOffset="null", latestOffset={"orders": {"a:0": 3}})
    assert progress_metrics(found)["avgOffsetsBehindLatest"] == 3
