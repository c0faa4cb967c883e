"""Subscriptions by tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError, java_hash
from lanemq.wire.bodies import SubscriptionData, parse_tag_expression

TAG = st.text(
    st.characters(exclude_characters="|", exclude_categories=["Cs", "Z", "C"]), min_size=1
)


@given(st.frozensets(TAG.filter(lambda tag: tag != "*"), min_size=1))
def test_the_tags_come_back_with_their_hashes(tags: frozenset[str]) -> None:
    expression = parse_tag_expression(" || ".join(tags))
    assert expression.tags == tags
    assert expression.codes == {java_hash(tag) for tag in tags}


@pytest.mark.parametrize("text", [None, "", "*"])
def test_all_messages(text: str | None) -> None:
    assert parse_tag_expression(text) == ("*", frozenset(), frozenset())
    assert SubscriptionData.of_tags("T", text) == SubscriptionData("T")


@pytest.mark.parametrize("text", ["TagA||TagB", " TagA || TagB ", "||TagA||||TagB||", "TagB||TagA"])
def test_blanks_and_empty_parts_do_not_count(text: str) -> None:
    codes = frozenset({2598919, 2598920})
    assert parse_tag_expression(text) == (text, frozenset({"TagA", "TagB"}), codes)


@pytest.mark.parametrize("text", ["||", "  ", " || "])
def test_an_expression_without_a_tag_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        parse_tag_expression(text)
