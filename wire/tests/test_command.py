"""Requests and answers, as the oldest clients can bear them."""

import pytest

from lanemq.wire import (
    SENDABLE_LANGUAGES,
    LanguageCode,
    LocalProtocolError,
    RequestCode,
    ResponseCode,
    Version,
    language_code,
    version_name,
)
from lanemq.wire._versions import VERSION
from lanemq.wire.frame import Connection, Frame, SerializeType, encode_frame, request


def test_a_reply_answers_its_request() -> None:
    asked = Frame(RequestCode.PULL_MESSAGE, opaque=-7, flag=2, language="GO", version=317)
    reply = asked.reply(ResponseCode.PULL_NOT_FOUND, {"minOffset": "0"}, b"body", "nothing yet")
    assert reply == Frame(19, -7, 1, {"minOffset": "0"}, b"body", "nothing yet", "PYTHON", 409)
    assert asked.is_oneway
    assert reply.is_response
    assert not asked.is_response
    assert not reply.is_oneway


@pytest.mark.parametrize("serialize", list(SerializeType))
def test_a_reply_has_the_serialize_type_of_its_request(serialize: SerializeType) -> None:
    # 3.2.6 and ali-ons take the whole header word for a length: to them it must begin with 0.
    reply = Frame(34, serialize=serialize).reply()
    assert encode_frame(reply)[4] == serialize


def test_a_request_of_ours_has_a_json_header() -> None:
    assert encode_frame(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True))[4] == 0


def test_the_header_word_of_a_json_frame_is_the_plain_header_length() -> None:
    data = encode_frame(request(34, body=b"body"))
    unmasked = int.from_bytes(data[4:8])
    assert data[8 + unmasked :] == b"body"


def test_a_requesters_language_is_never_echoed() -> None:
    assert Frame(34, language="RUST").reply().language == "PYTHON"


def test_only_languages_that_3_2_6_knows_are_sent() -> None:
    names = {"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP"}
    assert names == SENDABLE_LANGUAGES
    connection = Connection()
    for language in LanguageCode:
        if language.name in names:
            assert language.name.encode() in connection.send(Frame(34, language=language.name))
        else:
            with pytest.raises(LocalProtocolError, match="old clients"):
                connection.send(Frame(34, language=language.name))


@pytest.mark.parametrize("name", ["KLINGON", "UNKNOWN_256", "UNKNOWN_x", "99", ""])
def test_a_language_that_has_no_number_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="has no code"):
        language_code(name)


def test_we_advertise_a_version_at_which_consumers_allow_sql_filters() -> None:
    assert request(34).reply().version == VERSION == 409 >= Version.V4_1_0_SNAPSHOT


def test_versions_have_the_names_of_the_reference() -> None:
    for version in Version:
        assert version_name(version) == version.name
    assert version_name(0) == "V3_0_0_SNAPSHOT"
    assert version_name(14) == "V3_0_0_BETA9"
    assert version_name(-1) == "V3_0_0_SNAPSHOT"
    assert version_name(611) == "V5_9_9"
    assert version_name(100_000) == "HIGHER_VERSION"
