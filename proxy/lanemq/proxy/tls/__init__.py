"""TLS of the servers: its settings, its certificates, and links to other servers."""

from ..net.transport._tls import TlsMode
from ._process_tls import ProcessTls
from ._self_signed import SelfSigned, make_self_signed
from ._tls_settings import LINK_KEYS, NoCertificate, PortTlsSettings, TlsSettings

__all__ = [
    "LINK_KEYS",
    "NoCertificate",
    "PortTlsSettings",
    "ProcessTls",
    "SelfSigned",
    "TlsMode",
    "TlsSettings",
    "make_self_signed",
]
