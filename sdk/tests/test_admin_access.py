"""Commands sign their requests and speak TLS as they are told."""

import importlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lanemq.sdk import Credentials
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.cli import admin
from lanemq.sdk.admin.cli._send import sender_options
from lanemq.sdk.admin.cli.command._access import Access, take_access

CERTIFICATE = Path(__file__).parent / "tls" / "server.pem"
KEY = CERTIFICATE.with_name("server.key")
NOTHING = {
    **dict.fromkeys(("access_key", "secret_key", "security_token")),
    **dict.fromkeys(("tls_ca", "tls_cert", "tls_key")),
    "tls": False,
    "tls_no_verify": False,
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY", "SECRET_KEY", "SECURITY_TOKEN"):
        monkeypatch.delenv(f"LANEMQ_{name}", raising=False)


def run(*args: str, **environment: str) -> Result:
    where = ["-n", "127.0.0.1:1"]  # nobody listens there
    return CliRunner().invoke(admin, ["topicList", *where, *args], env=environment)


def taken(**options: object) -> Access:
    return take_access({**NOTHING, **options})


def test_without_options_nothing_is_signed_and_nothing_protected() -> None:
    assert taken() == Access(None, None)


def test_an_account_signs() -> None:
    found = taken(access_key="a", secret_key="s", security_token="t").credentials
    assert found == Credentials(access_key="a", secret_key="s", security_token="t")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--access-key", "a"), "--access-key and --secret-key belong together"),
        (("--secret-key", "s"), "--access-key and --secret-key belong together"),
        (("--security-token", "t"), "--security-token belongs to"),
        (("--tls-key", str(KEY)), "--tls-key belongs to --tls-cert"),
        (("--tls-no-verify", "--tls-ca", str(CERTIFICATE)), "leave --tls-ca out"),
        (("--tls-ca", str(KEY)), "no certificates or keys that fit"),
        (("--tls-cert", str(CERTIFICATE)), "no certificates or keys that fit"),
        (("--tls-ca", "/nowhere.pem"), "no certificates or keys that fit: [Errno 2]"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(args: tuple[str, ...], said: str) -> None:
    result = run(*args)
    assert result.exit_code == 1
    assert said in result.output


def test_tls_trusts_whom_it_is_told_to() -> None:
    context = taken(tls_ca=CERTIFICATE, tls_cert=CERTIFICATE, tls_key=KEY).tls
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1
    anyone = taken(tls_no_verify=True).tls
    assert anyone is not None
    assert (anyone.verify_mode, anyone.check_hostname) == (ssl.CERT_NONE, False)
    assert taken(tls=True).tls is not None


def test_what_is_given_reaches_the_client_and_those_it_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[AdminClient] = []

    @asynccontextmanager
    async def opened(
        *,
        name_servers: str,
        timeout_s: float,
        credentials: Credentials | None,
        tls: ssl.SSLContext | None,
    ) -> AsyncIterator[AdminClient]:
        async with open_admin(
            name_servers=name_servers, timeout_s=timeout_s, credentials=credentials, tls=tls
        ) as client:
            seen.append(client)
            yield client

    module = importlib.import_module("lanemq.sdk.admin.cli.command._command")
    monkeypatch.setattr(module, "open_admin", opened)
    run("--tls", LANEMQ_ACCESS_KEY="a", LANEMQ_SECRET_KEY="s")
    options = seen[0].client_options
    assert options.credentials == Credentials(access_key="a", secret_key="s")
    assert options.tls is not None


async def test_what_a_command_sends_has_as_long_as_its_requests() -> None:
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=60) as client:
        options = sender_options(client)
    assert (options.send_timeout_s, options.client.call_timeout_s) == (60, 60)
