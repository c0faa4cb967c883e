"""Tags codes of messages that come together are those of each by itself."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.queues._tags import TagsCodes
from lanemq.wire import SystemTopic, tags_code

PROPERTIES = st.lists(
    st.sampled_from(
        [
            b"",
            b"TAGS\x01A\x02",
            b"KEYS\x01k\x02TAGS\x01B",
            b"XTAGS\x01A\x02",
            b"KEYS\x01TAGS\x02",
            b"DELAY\x012\x02",
            b"DELAY\x01x\x02TAGS\x01A\x02",
        ]
    )
)


@given(st.sampled_from(["T", SystemTopic.SCHEDULE]), PROPERTIES)
def test_codes_of_many_are_those_of_each(topic: str, properties: list[bytes]) -> None:
    tags = TagsCodes((1000, 5000))
    assert tags.codes(topic, properties, 7) == [tags.code(topic, one, 7) for one in properties]


def test_codes_in_a_queue_and_in_the_schedule() -> None:
    tags = TagsCodes((1000, 5000))
    both = [b"DELAY\x012\x02TAGS\x01A\x02", b"KEYS\x01k"]
    assert tags.codes("T", both, 7) == [tags_code("A"), 0]
    assert tags.codes(SystemTopic.SCHEDULE, both, 7) == [5007, 0]
