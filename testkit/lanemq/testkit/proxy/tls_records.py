"""Records of TLS 1.3 that are made by hand: no client lets a test choose them.

Source: RFC 8446, sections 4.6.3 (KeyUpdate), 5.2 (records), 7.1 to 7.3 (keys).
"""

import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

KEY_UPDATE_BYTES: Final = 27
"""The length of a record with a KeyUpdate."""
_CIPHER: Final = "TLS_AES_256_GCM_SHA384"
_APPLICATION_DATA, _HANDSHAKE = b"\x17", b"\x16"
_KEY_UPDATE: Final = b"\x18\x00\x00\x01\x01"  # type 24, one byte: update_requested


@final
class HandmadeClient:
    """A client whose handshake OpenSSL makes; its records from then on are made here.

    ``context`` is one of a client, to which a file for the secrets of its handshakes is added.
    """

    def __init__(self, context: ssl.SSLContext, secrets: Path) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        secrets.unlink(missing_ok=True)
        context.keylog_filename = str(secrets)
        self._secrets = secrets
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname="127.0.0.1")
        self.is_ready = False
        """True once the handshake is complete on this side."""

    def shake_hands(self, data: bytes = b"") -> bytes:
        """Take what the server has sent, and return what it is to be sent."""
        self._arrived.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self.is_ready = True
            assert self._tls.cipher() == (_CIPHER, "TLSv1.3", 256)
            lines = map(str.split, self._secrets.read_text().splitlines())
            (secret,) = (one[2] for one in lines if one[0] == "CLIENT_TRAFFIC_SECRET_0")
            self._take(bytes.fromhex(secret))
        return self._leaving.read()

    def read(self, data: bytes | bytearray) -> bytes:
        """Return the content of the server's next records, which have to be whole and in order."""
        self._arrived.write(data)
        contents = []
        with suppress(ssl.SSLWantReadError):
            while True:
                contents.append(self._tls.read(16 << 10))
        return b"".join(contents)

    def data(self, content: bytes) -> bytes:
        """Return a record with ``content``."""
        return self._record(content + _APPLICATION_DATA)

    def key_updates(self, number: int) -> bytes:
        """Return so many records, each of which has the server make one, too."""
        records = []
        for _ in range(number):
            records.append(self._record(_KEY_UPDATE + _HANDSHAKE))
            self._take(_expand(self._secret, b"traffic upd", 48))
        return b"".join(records)

    def _take(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key = AESGCM(_expand(secret, b"key", 32))
        self._mask = int.from_bytes(_expand(secret, b"iv", 12), "big")

    def _record(self, content: bytes) -> bytes:
        header = struct.pack(">BHH", 0x17, 0x0303, len(content) + 16)
        nonce = (self._mask ^ self._number).to_bytes(12, "big")
        self._number += 1
        return header + self._key.encrypt(nonce, content, header)


def _expand(secret: bytes, label: bytes, size_bytes: int) -> bytes:
    """HKDF-Expand-Label without a context."""
    name = b"tls13 " + label
    info = struct.pack(">HB", size_bytes, len(name)) + name + b"\x00"
    return HKDFExpand(SHA384(), size_bytes, info).derive(secret)
