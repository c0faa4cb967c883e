"""A change of a white list: members who proved who they are lose nothing, others at once."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from lanemq.proxy.acl import AccountControl, AccountFiles, Sender
from lanemq.proxy.acl._rights import produces_as
from lanemq.wire import ACCESS_KEY_FIELD, SIGNATURE_FIELD, RequestCode, signature, signed_content
from lanemq.wire.frame import Frame, request

HOST, KEY, SECRET = "10.0.0.5", "owner12", "secret-of-owner"
BEAT = b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[{"groupName":"p"}]}'
LISTS = ("global", "its own")


def text_of(white: str, secret: str = SECRET) -> str:
    everybody = f"globalWhiteRemoteAddresses: [{HOST}]\n" if white == "global" else ""
    own = f"    whiteRemoteAddress: {HOST}\n" if white == "its own" else ""
    return (
        f"{everybody}accounts:\n  - accessKey: {KEY}\n    secretKey: {secret}\n{own}"
        "    groupPerms: [p=PUB]\n"
    )


def beat(secret: str | None) -> Frame:
    """Return a heartbeat, signed with a secret or not."""
    fields = {ACCESS_KEY_FIELD: KEY}
    frame = request(RequestCode.HEART_BEAT, fields, body=BEAT)
    if secret is None:
        return frame
    signed = signature(signed_content(fields, BEAT), secret)
    return replace(frame, fields={**fields, SIGNATURE_FIELD: signed})


class Broker:
    """The accounts of a broker, whose file changes, and a member of a producer group."""

    def __init__(self, home: Path) -> None:
        self.file = home / "conf" / "plain_acl.yml"
        self.file.parent.mkdir()
        self.file.write_text(text_of(""))
        self.files = AccountFiles(home)
        self.control = AccountControl(self.files)

    def change(self, text: str) -> None:
        self.file.write_text(text)
        self.control.accounts = self.files.read()

    def member(self, secret: str | None) -> Sender:
        """Send a heartbeat, which must be let in; return its sender."""
        session = Mock(peer=Mock(host=HOST))
        frame = beat(secret)
        self.control.check(frame, session)
        return self.control.sender(frame, session)

    def is_member(self, sender: Sender) -> bool:
        return self.control.rights_of(sender, HOST).may(produces_as("p"))


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


@pytest.mark.parametrize("white", LISTS)
def test_who_signed_stays_a_member_whatever_the_white_lists_say(broker: Broker, white: str) -> None:
    outside = broker.member(SECRET)
    assert broker.is_member(outside)
    broker.change(text_of(white))
    assert broker.is_member(outside), "let in by the address now"
    inside = broker.member(SECRET)
    for _ in range(2):
        broker.change(text_of(""))
        assert broker.is_member(outside)
        assert broker.is_member(inside), "it signed, though it need not have"
        broker.change(text_of(white))
        assert broker.is_member(inside)


@pytest.mark.parametrize(
    ("white", "secret"), [("global", None), ("global", "another-secret"), ("its own", None)]
)
def test_who_did_not_sign_is_no_member_once_the_address_is_not_enough(
    broker: Broker, white: str, secret: str | None
) -> None:
    broker.change(text_of(white))
    sender = broker.member(secret)
    assert broker.is_member(sender)
    broker.change(text_of(""))
    assert not broker.is_member(sender)


@pytest.mark.parametrize("white", LISTS)
def test_a_new_secret_ends_a_membership_of_the_old_one(broker: Broker, white: str) -> None:
    outside = broker.member(SECRET)
    broker.change(text_of(white))
    inside = broker.member(SECRET)
    broker.change(text_of("", "the-new-secret"))
    for sender in (outside, inside):
        assert not broker.is_member(sender)
    assert broker.is_member(broker.member("the-new-secret"))


def test_an_account_that_is_gone_has_no_members(broker: Broker) -> None:
    sender = broker.member(SECRET)
    broker.change(text_of("").replace(KEY, "other123"))
    assert not broker.is_member(sender)
