"""Connection strings say what keywords would; errors name the part and never show the secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk import (
    InvalidName,
    MessageModel,
    ProducerOptions,
    PushOptions,
    WrongValue,
    aio,
    blocking,
)
from lanemq.sdk.opening._settings import with_settings
from lanemq.sdk.opening._url import connect, parse_url

NONE: dict[str, str] = {}


def test_a_string_has_everything() -> None:
    servers, settings = parse_url(
        "rocketmq://us%40er:se%3Acret@a:1,b,[::1]:5/?group=g&namespace=shop&tls=true&retries=7"
        "&send_timeout_s=1.5&message_model=broadcasting&trace=yes&security_token=t",
        NONE,
    )
    assert servers == ("a:1", "b:9876", "[::1]:5")
    credentials = settings.pop("credentials")
    assert (credentials.access_key, credentials.secret_key) == ("us@er", "se:cret")
    assert credentials.security_token == "t"
    assert settings.pop("tls") is not None
    assert settings == {
        "group": "g",
        "namespace": "shop",
        "retries": 7,
        "send_timeout_s": 1.5,
        "message_model": MessageModel.BROADCASTING,
        "trace": True,
    }


def test_keywords_win_and_options_of_other_clients_are_left_out() -> None:
    url = "rocketmq://h/?group=g&retries=7&namespace=x&max_reconsume_times=3"
    group, servers, found = connect(None, url, {"namespace": "y"}, ProducerOptions, NONE)
    options = with_settings(ProducerOptions, None, found)
    assert (group, servers) == ("g", ("h:9876",))
    assert (options.retries, options.client.namespace) == (7, "y")
    group, _, found = connect("mine", url, {}, PushOptions, NONE)
    assert (group, found) == ("mine", {"namespace": "x", "max_reconsume_times": 3})


def test_the_environment_has_a_string_and_an_account() -> None:
    environment = {
        "LANEMQ_URL": "rocketmq://h:1/?group=g",
        "LANEMQ_ACCESS_KEY": "me",
        "LANEMQ_SECRET_KEY": "mine",
    }
    group, servers, found = connect(None, None, {}, ProducerOptions, environment)
    assert (group, servers, found["credentials"].secret_key) == ("g", ("h:1",), "mine")
    assert connect("g", "h:1", {}, ProducerOptions, environment) == ("g", "h:1", {})
    assert connect("g", None, {}, ProducerOptions, NONE) == ("g", None, {})


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("rocketmq://", "no host"),
        ("rocketmq://h:x/", "connection string.*h:x"),
        ("rocketmq://h/path?group=g", "'path'"),
        ("rocketmq://h/?grop=g", "'grop'; did you mean 'group'"),
        ("rocketmq://h/?group=a&group=b", "group is there twice"),
        ("rocketmq://h/?retries=many", "retries must be a number"),
        ("rocketmq://h/?trace=perhaps", "trace must be true or false"),
        ("rocketmq://h/?message_model=x", "message_model must be one of"),
        ("rocketmq://h/?tls_ca=/no/such/file", "tls_ca cannot be read"),
        ("rocketmq://h/?tls=false&tls_ca=/x", "tls_ca needs tls=true"),
        ("rocketmq://h/?tls_key=/x", "tls_key needs tls_cert"),
        ("rocketmq://h/?group", "name=value"),
        ("rocketmq://h/?hooks=1", "hooks"),
        ("rocketmq://user@h/", "the secret is missing"),
        ("rocketmq://:TopSecret@h/", "the user is missing"),
        ("rocketmq://user:TopSecret@h:x/", "h:x"),
        ("rocketmq://user:TopSecret%ff@h/", "not UTF-8"),
        ("rocketmq://user:TopSecret@h/#x", "%23"),
        ("rocketmq://h/?security_token=t", "security_token needs"),
        ("rocketmq://h/?credentials=c", "credentials"),
    ],
)
def test_errors_name_the_part_and_show_no_secret(url: str, says: str) -> None:
    with pytest.raises((InvalidName, WrongValue), match=says) as caught:
        parse_url(url, NONE)
    assert "TopSecret" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        servers, _ = parse_url("rocketmq://" + text, NONE)
    except ValueError:
        return
    assert servers


def test_a_client_without_a_group_is_refused_by_every_face() -> None:
    for face in (blocking, aio):
        with pytest.raises(InvalidName, match="no group given"):
            face.open_producer(name_servers="h:1")
        face.open_producer(name_servers="rocketmq://h:1/?group=g")
