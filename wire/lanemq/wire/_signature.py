"""Signatures of requests, as brokers with ``aclEnable=true`` want them.

The text that is signed is the values of all header fields in the order of their names, and the
body, without anything between them. Neither the request code, the names of the fields nor the time
are part of it: who has seen a request can send it again, and as another one with the same values.

Brokers of lanemq do not sign requests to each other so: who has got one could send it to another
broker, as an administrator's request of any kind. They seal them. A seal covers the request code,
the receiver, the time, and the names of the fields.

Source: RocketMQ 4.9.8, AclClientRPCHook, PlainAccessValidator, AclUtils, AclSigner.
"""

import hmac
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from typing import Final

ACCESS_KEY_FIELD: Final = "AccessKey"
SECURITY_TOKEN_FIELD: Final = "SecurityToken"
SIGNATURE_FIELD: Final = "Signature"
UNIQUE_KEY_FIELD: Final = "_UNIQUE_KEY_QUERY"
"""The flag of a query by unique key; clients add it to the query after they signed it."""
UNSIGNED_FIELDS: Final = frozenset({SIGNATURE_FIELD, UNIQUE_KEY_FIELD})
"""Fields that are not part of the text that clients sign."""
SEAL_FIELD: Final = "lanemqSeal"
SEALED_FOR_FIELD: Final = "lanemqSealedFor"
"""The address that the sender of a sealed request has dialled, ``host:port``."""
SEALED_AT_FIELD: Final = "lanemqSealedAt"
"""The time of a seal in milliseconds since 1970."""
PROOF_FIELDS: Final = frozenset(
    {
        ACCESS_KEY_FIELD,
        SECURITY_TOKEN_FIELD,
        SIGNATURE_FIELD,
        SEAL_FIELD,
        SEALED_FOR_FIELD,
        SEALED_AT_FIELD,
        "OnsChannel",
    }
)
"""Fields that show who sends a request: those of a client go no further than to whom it asks."""


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes that a request's signature is made of.

    Half of a surrogate pair becomes ``?``, as in Java.
    """
    values = [fields[name] for name in sorted(fields) if name not in UNSIGNED_FIELDS]
    return "".join(values).encode(errors="replace") + body


def signature(content: bytes, secret_key: str) -> str:
    """Return the signature of ``content``: its HMAC-SHA1 as 28 characters of base64."""
    digest = hmac.digest(secret_key.encode(), content, "sha1")
    return b2a_base64(digest, newline=False).decode("ascii")


def sealed_content(code: int, fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes that a request's seal is made of: no other request has the same.

    Each part has its length before it.
    """

    def parts() -> Iterator[bytes]:
        yield str(code).encode()
        for name in sorted(fields):
            if name != SEAL_FIELD:
                yield name.encode("utf-8", "surrogatepass")
                yield fields[name].encode("utf-8", "surrogatepass")
        yield body

    return b"".join(len(part).to_bytes(8, "big") + part for part in parts())


def seal(content: bytes, secret_key: str) -> str:
    """Return the seal of ``content``: its HMAC-SHA256 as 64 hexadecimal digits."""
    return hmac.digest(secret_key.encode(), content, "sha256").hex()
