"""Reasons of broken connections, those of TLS above all, in words for their user."""

import ssl
from typing import Final

_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the server speaks no TLS",
    "HTTP_REQUEST": "the server speaks no TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the server closed the connection instead of an "
    "answer; perhaps it speaks no TLS, or not to us",
}
_ALERTS: Final = {
    "ALERT_CERTIFICATE_REQUIRED": "the server insists on a certificate of ours",
    "ALERT_UNKNOWN_CA": "the server refuses our certificate: it does not know its authority",
    "ALERT_CERTIFICATE_EXPIRED": "the server refuses our certificate: it has expired",
    "ALERT_CERTIFICATE_REVOKED": "the server refuses our certificate: it was revoked",
    "ALERT_CERTIFICATE_UNKNOWN": "the server refuses our certificate",
    "ALERT_BAD_CERTIFICATE": "the server refuses our certificate",
}


def why_broken(error: BaseException) -> str:
    """Return why a connection broke: trio's own errors leave that to their cause."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate is refused: {cause.verify_message}"
    if not isinstance(cause, ssl.SSLError) or cause.reason is None:
        return str(cause) or "the server is gone"
    if cause.reason in _REASONS:
        return _REASONS[cause.reason]
    for alert, why in _ALERTS.items():
        if cause.reason.endswith(alert):
            return why
    plain = cause.reason.replace("_", " ").lower()
    _, is_alert, alert = plain.partition("alert ")
    return f"the server says: {alert}" if is_alert else plain
