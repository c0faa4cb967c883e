"""Signing requests, as brokers with ``aclEnable=true`` want them, and sealing those of brokers.

Source: RocketMQ 4.9.8, AclClientRPCHook.
"""

import time
from dataclasses import dataclass, field

from msgspec.structs import replace

from lanemq.wire import (
    ACCESS_KEY_FIELD,
    PROOF_FIELDS,
    SEAL_FIELD,
    SEALED_AT_FIELD,
    SEALED_FOR_FIELD,
    SECURITY_TOKEN_FIELD,
    SIGNATURE_FIELD,
    seal,
    sealed_content,
    signature,
    signed_content,
)
from lanemq.wire.frame import Frame

from .._values import check_fields


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
        check_fields(self)
        if not self.access_key or not self.secret_key:
            raise ValueError("Credentials need an access_key and a secret_key")


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerCredentials(Credentials):
    """The identity of a broker to others of lanemq: its requests are sealed for one receiver."""


def sign(frame: Frame, credentials: Credentials, receiver: str) -> Frame:
    """Return ``frame`` with the fields that show who sends it, for the server at ``receiver``."""
    fields = {**frame.fields, ACCESS_KEY_FIELD: credentials.access_key}
    if isinstance(credentials, BrokerCredentials):
        # A client's signature on what is passed on would be good for other requests, too.
        fields = {name: fields[name] for name in fields if name not in PROOF_FIELDS}
        fields[ACCESS_KEY_FIELD] = credentials.access_key
        fields[SEALED_FOR_FIELD] = receiver
        fields[SEALED_AT_FIELD] = str(time.time_ns() // 1_000_000)
        content = sealed_content(frame.code, fields, frame.body)
        fields[SEAL_FIELD] = seal(content, credentials.secret_key)
        return replace(frame, fields=fields)
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN_FIELD] = credentials.security_token
    fields[SIGNATURE_FIELD] = signature(signed_content(fields, frame.body), credentials.secret_key)
    return replace(frame, fields=fields)
