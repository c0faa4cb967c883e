"""Certificates of an authority that exists for one test."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import final

from lanemq.proxy.tls import _issue

HOSTS = ("127.0.0.1", "localhost")


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@final
class Authority:
    """An authority in ``folder``, whose certificate is ``path``."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = _issue.new_key()
        self._certificate = _issue.new_authority(self._key, datetime.now(UTC))
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(_issue.certificate_pem(self._certificate))

    def issue(
        self, name: str = "server", *, days_ago: int = 0, password: str | None = None
    ) -> Pair:
        """Write the files of a new certificate; 400 days ago means one that has expired."""
        key, day = _issue.new_key(), datetime.now(UTC) - timedelta(days=days_ago)
        made = _issue.new_certificate(key, HOSTS, self._certificate, self._key, day)
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(_issue.certificate_pem(made))
        pair.key.write_bytes(_issue.key_pem(key, password))
        return pair

    def trusted(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and has ``pair`` to show."""
        context = ssl.create_default_context(cafile=self.path)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of Python 3.13 on
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context
