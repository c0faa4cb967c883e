"""Signatures of requests, as brokers with ``aclEnable=true`` want them.

The text that is signed is the values of all header fields in the order of their names, and the
body. Neither the request code nor the time is part of it: a signature keeps a request from being
changed, not from being sent again.

Source: RocketMQ 4.9.8, AclClientRPCHook, PlainAccessValidator, AclUtils, AclSigner.
"""

import hmac
from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final

ACCESS_KEY_FIELD: Final = "AccessKey"
SECURITY_TOKEN_FIELD: Final = "SecurityToken"
SIGNATURE_FIELD: Final = "Signature"
UNIQUE_KEY_FIELD: Final = "_UNIQUE_KEY_QUERY"
"""The flag of a query by unique key; clients add it to the query after they signed it."""
UNSIGNED_FIELDS: Final = frozenset({SIGNATURE_FIELD, UNIQUE_KEY_FIELD})
"""Fields that are not part of the text that clients sign."""


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
