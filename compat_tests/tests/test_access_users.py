"""Users and policies of 5.x: Java clients and mqadmin at lanemq's broker and at Apache's."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from lanemq.compat.servers._access import Attempt, broker_address, try_access
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._clusters import (
    TEST_SETTINGS,
    Cluster,
    apache_cluster,
    lanemq_cluster,
    running,
)
from lanemq.compat.servers._mqadmin import open_mqadmin
from lanemq.compat.servers._proxy import behind_proxy

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

CHIEF = ("lanemqchief", "chief1234")
CLERK = ("lanemqclerk", "clerk1234")
FORGER = ("lanemqclerk", "clerk1235")
STRANGER = ("lanemqstranger", "clerk1234")
NOBODY = ("", "")
AUTH = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"lanemqchief","password":"chief1234"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner1234"}',
}
APACHE_AUTH = {
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider"
    ".DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.auth.authentication.provider"
    ".LocalAuthenticationMetadataProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider"
    ".DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.auth.authorization.provider"
    ".LocalAuthorizationMetadataProvider",
}
REFUSED = "16 User:lanemqclerk has no permission to access "
NO_POLICY = " from 127.0.0.1, no matched policies."
SETUP = (
    Attempt(CHIEF, "create", "orders", "", "ok "),
    Attempt(CHIEF, "create", "wages", "", "ok "),
    Attempt(CHIEF, "send", "wages", "anyone", "ok SEND_OK"),
)
ATTEMPTS = (
    Attempt(CLERK, "send", "orders", "anyone", "ok SEND_OK"),
    Attempt(CLERK, "batch", "orders", "anyone", "ok SEND_OK"),
    Attempt(NOBODY, "send", "orders", "anyone", "16 username cannot be null."),
    Attempt(STRANGER, "send", "orders", "anyone", "16 User:lanemqstranger is not found."),
    Attempt(FORGER, "send", "orders", "anyone", "16 check signature failed."),
    Attempt(CLERK, "send", "wages", "anyone", REFUSED + "Topic:wages" + NO_POLICY),
    Attempt(CLERK, "batch", "wages", "anyone", REFUSED + "Topic:wages" + NO_POLICY),
    Attempt(CLERK, "pull", "orders", "readers", REFUSED + "Group:readers" + NO_POLICY),
    Attempt(CLERK, "create", "more", "", REFUSED + "Topic:more" + NO_POLICY),
)


@asynccontextmanager
async def guarded(maker: Callable[[Path], Cluster], folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster whose broker has users, with ``CHIEF`` as the first one."""
    cluster = await trio.to_thread.run_sync(maker, folder)
    async with running(cluster, graceful=False):
        yield cluster


def apache(folder: Path) -> Cluster:
    return apache_cluster("5.3.3", folder, settings={**TEST_STORE, **AUTH, **APACHE_AUTH})


def lanemq(folder: Path) -> Cluster:
    return lanemq_cluster(folder, settings={**TEST_SETTINGS, **AUTH})


async def manage(cluster: Cluster, folder: Path) -> list[tuple[str, str]]:
    """Make ``CLERK`` and its policies by mqadmin, and look at them; what it prints."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "tools.yml").write_text(f"accessKey: {CHIEF[0]}\nsecretKey: {CHIEF[1]}\n")
    address = broker_address(cluster)
    at = ("-b", address)
    subject = ("-s", f"User:{CLERK[0]}")
    clerk = ("-u", CLERK[0])
    policy = ("-r", "Topic:orders", "-a", "Pub,Sub", "-d", "Allow")
    networks = ("-r", "Topic:prices*", "-a", "Get", "-i", "10.0.0.0/8", "-d", "Deny")
    commands = (
        ("createUser", *at, *clerk, "-p", CLERK[1]),
        ("createAcl", *at, *subject, *policy),
        ("updateAcl", *at, *subject, *networks),
        ("getUser", *at, *clerk),
        ("listUser", *at, "-f", "clerk"),
        ("getAcl", *at, *subject),
        ("listAcl", *at, "-s", "clerk"),
        ("updateUser", *at, *clerk, "-s", "enable"),
        ("deleteAcl", *at, *subject, "-r", "Topic:prices*"),
    )
    printed = []
    async with open_mqadmin("5.3.3", folder) as shell:
        for command in commands:
            done = await shell.run(*command)
            text = done.out.replace(address, "ADDRESS")
            printed.append((command[0], "\n".join(line.rstrip() for line in text.splitlines())))
    return printed


async def test_clients_and_mqadmin_notice_no_difference(tmp_path: Path) -> None:
    printed: dict[str, list[tuple[str, str]]] = {}
    told: dict[tuple[str, str], list[str]] = {}
    for name, maker in (("apache", apache), ("lanemq", lanemq)):
        async with guarded(maker, tmp_path / name) as cluster:
            printed[name] = await manage(cluster, tmp_path / name / "mqadmin")
            for version in ("4.9.7", "5.3.3"):
                attempts = (*SETUP, *ATTEMPTS)
                told[name, version] = await try_access(cluster, version, attempts)
    expected = [attempt.expected for attempt in (*SETUP, *ATTEMPTS)]
    for version in ("4.9.7", "5.3.3"):
        assert told["apache", version] == expected, "the control"
        assert told["lanemq", version] == expected
    assert printed["lanemq"] == printed["apache"]
    assert all(text for _, text in printed["lanemq"])


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_a_proxy_passes_requests_on_signed_as_they_are(version: str, tmp_path: Path) -> None:
    """The brokers behind it check them, and their refusals come back as they are."""
    attempts = (
        *SETUP,
        *(one for one in ATTEMPTS if one.account in (NOBODY, STRANGER)),
        Attempt((CHIEF[0], CLERK[1]), "send", "orders", "anyone", "16 check signature failed."),
        Attempt(CHIEF, "pull", "wages", "readers", "ok FOUND"),
    )
    async with guarded(apache, tmp_path) as cluster, behind_proxy(cluster) as proxied:
        told = await try_access(proxied, version, attempts)
    assert told == [attempt.expected for attempt in attempts]
