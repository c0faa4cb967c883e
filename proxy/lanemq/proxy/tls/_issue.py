"""Makes certificates and keys with the package ``cryptography``, and is imported only for that."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LASTS: Final = timedelta(days=3650)
SERVER_LASTS: Final = timedelta(days=365)
RENEWED_BEFORE: Final = timedelta(days=30)
_CLOCKS_DIFFER: Final = timedelta(days=1)
_BOTH_SIDES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def new_key() -> EllipticCurvePrivateKey:
    """Make a key of the curve P-256."""
    return generate_private_key(SECP256R1())


def key_pem(key: EllipticCurvePrivateKey, password: str | None = None) -> bytes:
    """Encode a key, encrypted if there is a password."""
    encryption: KeySerializationEncryption = NoEncryption()
    if password is not None:
        encryption = BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """Encode a certificate."""
    return certificate.public_bytes(Encoding.PEM)


def read_key(data: bytes) -> EllipticCurvePrivateKey:
    """Decode a key as ``key_pem`` encodes it. Raises ``ValueError``."""
    key = load_pem_private_key(data, None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError("not a key of a curve")
    return key


def read_certificate(data: bytes) -> x509.Certificate:
    """Decode a certificate. Raises ``ValueError``."""
    return x509.load_pem_x509_certificate(data)


def new_authority(key: EllipticCurvePrivateKey, today: datetime) -> x509.Certificate:
    """Make the certificate of an authority."""
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    # Authorities with one name and different keys confuse those who know both.
    subject = _subject(f"lanemq {today:%Y-%m-%d %H:%M:%S}")
    public = key.public_key()
    return (
        x509.CertificateBuilder(subject, subject, public, x509.random_serial_number())
        .not_valid_before(today - _CLOCKS_DIFFER)
        .not_valid_after(today + AUTHORITY_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, SHA256())
    )


def new_certificate(
    key: EllipticCurvePrivateKey,
    hosts: Sequence[str],
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    today: datetime,
) -> x509.Certificate:
    """Make the certificate of a server, or a client, with these names and addresses."""
    names = x509.SubjectAlternativeName([_name(host) for host in dict.fromkeys(hosts)])
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    subject, number = _subject(hosts[0]), x509.random_serial_number()
    return (
        x509.CertificateBuilder(authority.subject, subject, key.public_key(), number)
        .not_valid_before(today - _CLOCKS_DIFFER)
        .not_valid_after(today + SERVER_LASTS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage(_BOTH_SIDES), critical=False)
        .add_extension(signer, critical=False)
        .sign(authority_key, SHA256())
    )


def lasts(certificate: x509.Certificate, today: datetime) -> bool:
    """Return whether a certificate need not be renewed."""
    return certificate.not_valid_after_utc - RENEWED_BEFORE > today


def serves(
    certificate: x509.Certificate, hosts: Sequence[str], authority: x509.Certificate
) -> bool:
    """Return whether a certificate is of this authority, and has all of these names."""
    try:
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return {_name(host) for host in hosts} <= set(names)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
