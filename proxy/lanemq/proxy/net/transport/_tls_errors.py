"""Failed handshakes, in words for an operator."""

import ssl
from typing import Final

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer has no certificate, and this server insists on "
    "one (tls.server.need.client.auth=require)",
    "UNSUPPORTED_PROTOCOL": "the peer speaks only versions before TLS 1.2",
    "VERSION_TOO_LOW": "the peer speaks only versions before TLS 1.2",
    "NO_SHARED_CIPHER": "the peer has no cipher that this server's certificate can be used with",
    "WRONG_VERSION_NUMBER": "what the peer sent is not TLS",
    "HTTP_REQUEST": "what the peer sent is not TLS",
}
_ALERTS: Final = {
    "ALERT_UNKNOWN_CA": "it does not know the authority that signed it",
    "ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "ALERT_CERTIFICATE_UNKNOWN": "it does not trust it",
    "ALERT_BAD_CERTIFICATE": "it calls it bad",
    "ALERT_UNSUPPORTED_CERTIFICATE": "it cannot use one of that kind",
}


def why_refused(error: ssl.SSLError) -> str:
    """Return why a handshake failed, and which side did not want it."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message}"
    if reason in _REASONS:
        return _REASONS[reason]
    for alert, why in _ALERTS.items():
        if reason.endswith(alert):
            return f"the peer refuses this server's certificate: {why}"
    plain = reason.replace("_", " ").lower() or "what the peer sent is not TLS"
    _, is_alert, alert = plain.partition("alert ")
    return f"the peer says: {alert}" if is_alert else plain
