"""TLS of the servers: its settings, its certificates, and links to other servers."""

from ._process_tls import ProcessTls
from ._self_signed import SelfSigned, make_self_signed
from ._tls_settings import TlsSettings

__all__ = ["ProcessTls", "SelfSigned", "TlsSettings", "make_self_signed"]
