"""Signing requests, as brokers with ``aclEnable=true`` want them. Pure.

The text that is signed is the values of all header fields in the order of their names, and the
body. Neither the request code nor the time is part of it: a signature keeps a request from being
changed, not from being sent again.

Source: RocketMQ 4.9.8, AclClientRPCHook, AclUtils, AclSigner.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from msgspec.structs import replace

from lanemq.wire import Frame

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
# Clients add it to a query after they signed it, so servers leave it out.
UNSIGNED: Final = frozenset({SIGNATURE, "_UNIQUE_KEY_QUERY"})


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Who a client is, for servers that check signatures."""

    access_key: str
    """The name of the account; travels with every request."""
    secret_key: str = field(repr=False)
    """Signs requests and never travels."""
    security_token: str | None = field(default=None, repr=False)
    """Of temporary accounts; travels with every request and is signed."""

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ValueError("Credentials need an access_key and a secret_key")


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """The bytes that a request's signature is made of."""
    values = [fields[name] for name in sorted(fields) if name not in UNSIGNED]
    return "".join(values).encode() + body


def signature(content: bytes, secret_key: str) -> str:
    """28 characters of base64: the HMAC-SHA1 of ``content``."""
    digest = hmac.new(secret_key.encode(), content, hashlib.sha1).digest()
    return base64.b64encode(digest).decode("ascii")


def sign(frame: Frame, credentials: Credentials) -> Frame:
    """``frame`` with the fields that show who sends it."""
    fields = {**frame.fields, ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN] = credentials.security_token
    fields[SIGNATURE] = signature(signed_content(fields, frame.body), credentials.secret_key)
    return replace(frame, fields=fields)
