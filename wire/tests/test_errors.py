"""Errors say whose fault it is, and what to answer."""

from lanemq.wire import (
    LocalProtocolError,
    ProtocolError,
    Refused,
    RemoteProtocolError,
    ResponseCode,
)


def test_both_blames_have_one_base() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(Refused, ProtocolError)


def test_a_peers_fault_knows_what_to_answer() -> None:
    assert RemoteProtocolError("bad field").hint == ResponseCode.SYSTEM_ERROR


def test_a_refusal_carries_its_code_and_remark() -> None:
    refused = Refused(ResponseCode.TOPIC_NOT_EXIST, "no route of T")
    assert type(refused.code) is int
    assert (refused.code, refused.remark) == (17, "no route of T")
    assert str(refused) == "response code 17: no route of T"
