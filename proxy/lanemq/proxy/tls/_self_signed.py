"""A set of certificates for trying TLS out: an authority, and a server that it signed for.

    tls/ca.pem, ca.key                 the authority, which clients trust; ten years
    tls/server.pem, server.key         the server, with its names and addresses; a year
    tls/tls.properties                 the settings of the server
    tls/client.properties              the settings of a Java client

Needs the package ``cryptography``: ``pip install 'lanemq[tls]'``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar, final

from lanemq.local import replace_file
from lanemq.wire import encode_properties_text

from .._settings import ConfigError
from ..net.transport._tls import TlsMode

NEEDS_CRYPTOGRAPHY: Final = (
    "making certificates needs the Python package 'cryptography': pip install 'lanemq[tls]'; or "
    "have them made elsewhere, and name them in tls.server.certPath and tls.server.keyPath"
)

_T = TypeVar("_T")


@final
@dataclass(frozen=True, slots=True)
class SelfSigned:
    """The files of a set in ``folder``."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """The key that signs servers' certificates."""
        return self.folder / "ca.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The server's key."""
        return self.folder / "server.key"

    @property
    def properties(self) -> Path:
        """The settings of the server, to be named in ``tls.config.file``."""
        return self.folder / "tls.properties"

    @property
    def client_properties(self) -> Path:
        """The settings of a Java client."""
        return self.folder / "client.properties"


def make_self_signed(
    folder: Path, hosts: Sequence[str], *, mode: TlsMode, now: datetime | None = None
) -> SelfSigned:
    """Make the missing files of a set in ``folder``, for a server with these names and addresses.

    What is there stays, unless it does not name them all or soon expires; so clients that trust the
    authority go on doing so. Raises ``ConfigError`` without the package ``cryptography``, or where
    other files are in the way, and ``OSError``.
    """
    try:
        from . import _issue
    except ModuleNotFoundError:
        raise ConfigError(NEEDS_CRYPTOGRAPHY) from None
    files, today = SelfSigned(folder.absolute()), now or datetime.now(UTC)
    files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.folder.chmod(0o700)
    authority = _read(files.authority, _issue.read_certificate)
    server = _read(files.certificate, _issue.read_certificate)
    key = _read(files.key, _issue.read_key)
    if (
        authority is None
        or server is None
        or key is None
        or key.public_key() != server.public_key()
        or not _issue.lasts(server, today)
        or not _issue.serves(server, hosts, authority)
    ):
        authority_key = _read(files.authority_key, _issue.read_key)
        if (
            authority is None
            or authority_key is None
            or authority_key.public_key() != authority.public_key()
            or not _issue.lasts(authority, today)
        ):
            authority_key = _issue.new_key()
            authority = _issue.new_authority(authority_key, today)
            replace_file(files.authority_key, _issue.key_pem(authority_key), is_secret=True)
            replace_file(files.authority, _issue.certificate_pem(authority), is_secret=True)
        key = _issue.new_key()
        server = _issue.new_certificate(key, hosts, authority, authority_key, today)
        replace_file(files.key, _issue.key_pem(key), is_secret=True)
        replace_file(files.certificate, _issue.certificate_pem(server), is_secret=True)
    replace_file(files.properties, _server_properties(files, mode), is_secret=True)
    replace_file(files.client_properties, _client_properties(files), is_secret=True)
    return files


def _server_properties(files: SelfSigned, mode: TlsMode) -> bytes:
    return b"# Written by lanemq at each start.\n" + encode_properties_text(
        {
            "tls.server.mode": mode.value,
            "tls.server.certPath": str(files.certificate),
            "tls.server.keyPath": str(files.key),
            "tls.client.trustCertPath": str(files.authority),
        }
    )


def _client_properties(files: SelfSigned) -> bytes:
    return b"# For java -Dtls.enable=true -Dtls.config.file=...\n" + encode_properties_text(
        {
            "tls.test.mode.enable": "false",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(files.authority),
        }
    )


def _read(path: Path, read: Callable[[bytes], _T]) -> _T | None:
    """Read a file of the set; None if it is not there."""
    try:
        return read(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise ConfigError(
            f"{path} is not one of the files that lanemq makes: move it away, and a new one is made"
        ) from None
