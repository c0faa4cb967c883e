"""Signing requests, as brokers with ``aclEnable=true`` want them. Pure.

Source: RocketMQ 4.9.8, AclClientRPCHook.
"""

from dataclasses import dataclass, field
from typing import final

from msgspec.structs import replace

from lanemq.wire import (
    ACCESS_KEY_FIELD,
    SECURITY_TOKEN_FIELD,
    SIGNATURE_FIELD,
    signature,
    signed_content,
)
from lanemq.wire.frame import Frame


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """The identity of a client, for servers that check signatures."""

    access_key: str
    """The name of the account; travels with every request."""
    secret_key: str = field(repr=False)
    """Signs requests and never travels."""
    security_token: str | None = field(default=None, repr=False)
    """Token of temporary accounts; travels with every request and is signed."""

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ValueError("Credentials need an access_key and a secret_key")


def sign(frame: Frame, credentials: Credentials) -> Frame:
    """Return ``frame`` with the fields that show who sends it."""
    fields = {**frame.fields, ACCESS_KEY_FIELD: credentials.access_key}
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN_FIELD] = credentials.security_token
    fields[SIGNATURE_FIELD] = signature(signed_content(fields, frame.body), credentials.secret_key)
    return replace(frame, fields=fields)
