"""Declarations of requests: each names every object that its header and its body can name."""

from pathlib import Path

import msgspec
import pytest

from lanemq.wire import RequestCode
from lanemq.wire.headers import Header
from lanemq.wire.requests import REQUESTS, Absent, Field, Keys, Port, RequestSpec, Right

ROOT = Path(__file__).parents[2]
SERVED = {code: spec for code, spec in REQUESTS.items() if spec.ports}
CHECKED = {code: spec for code, spec in SERVED.items() if spec.ports != (Port.NAME_SERVER,)}
OBJECT_FIELDS = frozenset(
    {
        "b",
        "compareGroup",
        "consumerGroup",
        "destGroup",
        "filterGroups",
        "group",
        "groupName",
        "namespace",
        "producerGroup",
        "srcGroup",
        "topic",
        "topicList",
    }
)
"""Names of fields that name objects; that of a send's producer only marks its messages."""
OF_SENDS = frozenset({"producerGroup"})
MARKS = {
    RequestCode.SEND_MESSAGE: OF_SENDS,
    RequestCode.SEND_REPLY_MESSAGE: OF_SENDS,
    RequestCode.RECALL_MESSAGE: OF_SENDS,
    RequestCode.END_TRANSACTION: OF_SENDS,
}

NEEDED_BY_HANDLERS = {RequestCode.QUERY_CONSUME_QUEUE}
"""Requests that their handlers refuse without the object's name, though the header does not."""


def header_fields(header: type[Header] | None) -> dict[str, bool]:
    """Map the names of a header's fields to whether they are required."""
    if header is None:
        return {}
    return {field.encode_name: field.required for field in msgspec.structs.fields(header)}


@pytest.mark.parametrize("spec", SERVED.values(), ids=lambda spec: spec.code.name)
def test_a_code_that_is_served_says_what_it_touches(spec: RequestSpec) -> None:
    assert spec.touches
    for touch in spec.touches:
        assert touch.reason or (touch.account is not Right.NONE and touch.user)


@pytest.mark.parametrize("spec", CHECKED.values(), ids=lambda spec: spec.code.name)
def test_every_field_that_names_an_object_is_declared(spec: RequestSpec) -> None:
    fields = header_fields(spec.header)
    declared = {touch.source.name for touch in spec.touches if isinstance(touch.source, Field)}
    if any(isinstance(touch.source, Keys) for touch in spec.touches):
        declared.add("namespace")  # whose keys they are
    is_whole = any(touch.account is Right.ADMIN for touch in spec.touches)
    named = fields.keys() & OBJECT_FIELDS - MARKS.get(spec.code, frozenset())
    assert declared <= fields.keys()
    assert named <= declared or is_whole


@pytest.mark.parametrize("spec", CHECKED.values(), ids=lambda spec: spec.code.name)
def test_a_field_that_may_be_left_away_says_what_that_means(spec: RequestSpec) -> None:
    fields = header_fields(spec.header)
    for touch in spec.touches:
        source = touch.source
        if isinstance(source, Field) and not fields[source.name]:
            is_needed = spec.code in NEEDED_BY_HANDLERS
            assert source.absent is not Absent.INVALID or source.default or is_needed


def test_fields_of_answers_are_named_by_their_headers_alone() -> None:
    """No server and no client spells a name that is an answer's and nothing else's."""
    names = {
        name
        for spec in REQUESTS.values()
        for name in header_fields(spec.answer).keys() - {"offset", "version"}
    }
    own = {"nextBeginOffset", "suggestWhichBrokerId", "indexLastUpdateTimestamp", "recallHandle"}
    assert own <= names
    for part in ("proxy", "sdk"):
        for path in (ROOT / part / "lanemq").rglob("*.py"):
            text = path.read_text()
            assert [name for name in own if f'"{name}"' in text] == [], path
