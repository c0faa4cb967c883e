"""The classes of 5.0.0-PREVIEW read the JSON of lanemq about logical queues, and the reverse."""

import pytest

from lanemq.compat.logical._cases import cases
from lanemq.compat.peers._oracle import ask_oracle
from lanemq.wire import fastjson
from lanemq.wire.bodies import RegisterBrokerBody, RouteData
from lanemq.wire.logical import LogicalQueues, Segment, logical_queues_by_topic, sort_key

pytestmark = pytest.mark.peers


def meaning(kind: str, text: str) -> object:
    if kind == "queues":
        return LogicalQueues.decode(text)
    if kind in ("route", "unordered"):
        return LogicalQueues.of_route(RouteData.decode(text).extra)
    if kind == "register":
        return logical_queues_by_topic(RegisterBrokerBody.decode(text).topic_config_wrapper.extra)
    if kind == "sorted":
        value = fastjson.loads(text)
        assert isinstance(value, list)
        return [Segment.from_json(item) for item in value]
    if kind == "reuse":
        text = text.replace('"logicalQueueDelta":5,', "")  # lanemq's own member
    return text


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_java_classes_read_and_write_what_we_mean(seed: int) -> None:
    asked = list(cases(seed, 300))
    answers = ask_oracle(
        "LogicalJson", "client-5.0.0-PREVIEW", (f"{kind}\t{text}" for kind, text in asked)
    )
    for (kind, text), answer in zip(asked, answers, strict=True):
        assert not answer.startswith("ERROR"), (text, answer)
        expected = meaning(kind, text)
        if kind == "sorted":
            assert isinstance(expected, list)
            expected.sort(key=sort_key)
        assert meaning(kind, answer) == expected
