"""Names of topics and groups."""

import pytest

from lanemq.wire import (
    CLOSED_TOPICS,
    SYSTEM_TOPICS,
    Permission,
    dlq_topic,
    group_name_problem,
    group_of_retry_topic,
    is_closed_topic,
    is_system_group,
    is_system_topic,
    permission_text,
    reply_topic,
    retry_topic,
    topic_name_problem,
)


def test_topics_of_a_group() -> None:
    assert retry_topic("g") == "%RETRY%g"
    assert dlq_topic("g") == "%DLQ%g"
    assert reply_topic("c") == "c_REPLY_TOPIC"
    assert group_of_retry_topic("%RETRY%g") == "g"
    assert group_of_retry_topic("g") is None


@pytest.mark.parametrize("name", ["T", "a-Z_0%|", "x" * 127, "%RETRY%g"])
def test_legal_names(name: str) -> None:
    assert topic_name_problem(name) is None
    assert group_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [("", "blank"), ("  ", "blank"), ("x" * 128, "128 characters"), ("a b", "'a b'"), ("é", "'é'")],
)
def test_illegal_topics_are_explained(name: str, problem: str) -> None:
    reason = topic_name_problem(name)
    assert reason is not None
    assert problem in reason


def test_groups_may_be_longer_than_topics() -> None:
    assert group_name_problem("x" * 255) is None
    assert group_name_problem("x" * 256) is not None


def test_what_belongs_to_the_brokers() -> None:
    assert is_system_topic("TBW102")
    assert is_system_topic("rmq_sys_wheel_timer")
    assert not is_system_topic("T")
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert is_system_group("TOOLS_CONSUMER")
    assert not is_system_group("g")
    assert CLOSED_TOPICS < SYSTEM_TOPICS


@pytest.mark.parametrize(
    ("perm", "text"),
    [(Permission.READ_WRITE, "RW-"), (7, "RWX"), (Permission.READ, "R--"), (0, "---")],
)
def test_permissions_in_letters(perm: int, text: str) -> None:
    assert permission_text(perm) == text


def test_the_logs_of_keys_belong_to_the_broker() -> None:
    assert is_system_topic("%KV%default")
    assert is_closed_topic("%KV%default")
    assert is_closed_topic("SCHEDULE_TOPIC_XXXX")
    assert not is_closed_topic("T")
