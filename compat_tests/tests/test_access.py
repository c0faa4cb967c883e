"""Brokers with accounts: what clients may, and what they are told, at Apache's and at lanemq's."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
import yaml

from lanemq.compat.servers._access import Attempt, broker_address, try_access, words
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
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_S
from lanemq.sdk import (
    ClientOptions,
    Credentials,
    Message,
    ProducerOptions,
    RefusedByBroker,
    open_producer,
)
from lanemq.sdk.admin import open_admin
from lanemq.wire.bodies import TopicConfig

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

ACCOUNTS = """
accounts:
  - accessKey: lanemqchief
    secretKey: chief1234
    admin: true
  - accessKey: lanemqclerk
    secretKey: clerk1234
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - orders=PUB|SUB
      - prices=SUB
    groupPerms:
      - readers=SUB
      - writers=PUB
"""
CHIEF = ("lanemqchief", "chief1234")
CLERK = ("lanemqclerk", "clerk1234")
FORGER = ("lanemqclerk", "clerk1235")
STRANGER = ("lanemqstranger", "clerk1234")
NOBODY = ("", "")

REFUSED = "1 org.apache.rocketmq.acl.common.AclException: "
ATTEMPTS = (
    Attempt(CHIEF, "create", "orders", "", "ok "),
    Attempt(CHIEF, "create", "prices", "", "ok "),
    Attempt(CHIEF, "create", "wages", "", "ok "),
    Attempt(CHIEF, "send", "wages", "anyone", "ok SEND_OK"),
    Attempt(CLERK, "send", "orders", "anyone", "ok SEND_OK"),
    Attempt(CLERK, "pull", "orders", "readers", "ok FOUND"),
    Attempt(CLERK, "listen", "orders", "readers", "ok heard"),
    Attempt(NOBODY, "send", "orders", "anyone", REFUSED + "No accessKey is configured"),
    Attempt(STRANGER, "send", "orders", "anyone", REFUSED + "No acl config for lanemqstranger"),
    Attempt(
        FORGER,
        "send",
        "orders",
        "anyone",
        REFUSED + "Check signature failed for accessKey=lanemqclerk",
    ),
    Attempt(CLERK, "send", "prices", "anyone", REFUSED + "No default permission for topic:prices"),
    Attempt(CLERK, "send", "wages", "anyone", REFUSED + "No default permission for topic:wages"),
    Attempt(CLERK, "pull", "wages", "readers", REFUSED + "No default permission for topic:wages"),
    Attempt(CLERK, "pull", "orders", "others", REFUSED + "No default permission for group:others"),
    Attempt(
        CLERK, "pull", "orders", "writers", REFUSED + "No default permission for group:writers"
    ),
    Attempt(
        CLERK,
        "create",
        "more",
        "",
        REFUSED + "Need admin permission for request code=17, but accessKey=lanemqclerk is not",
    ),
)


@asynccontextmanager
async def guarded(maker: Callable[[Path], Cluster], folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster whose broker has ``ACCOUNTS``."""
    cluster = await trio.to_thread.run_sync(maker, folder)
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    async with running(cluster, graceful=False):
        yield cluster


def apache(folder: Path) -> Cluster:
    return apache_cluster("4.9.7", folder, settings={**TEST_STORE, "aclEnable": "true"})


def lanemq(folder: Path) -> Cluster:
    home = {"aclEnable": "true", "rocketmqHome": str(folder / "home"), "brokerName": "broker-a"}
    return lanemq_cluster(folder, settings={**TEST_SETTINGS, **home})


async def test_java_clients_are_let_in_and_refused_as_by_apache(tmp_path: Path) -> None:
    told: dict[tuple[str, str], list[str]] = {}
    for name, maker in (("apache", apache), ("lanemq", lanemq)):
        async with guarded(maker, tmp_path / name) as cluster:
            for version in ("4.9.7", "5.3.3"):
                told[name, version] = await try_access(cluster, version, ATTEMPTS)
    expected = [attempt.expected for attempt in ATTEMPTS]
    for version in ("4.9.7", "5.3.3"):
        assert told["apache", version] == expected, "the control"
        assert told["lanemq", version] == expected


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_a_proxy_passes_requests_on_signed_as_they_are(version: str, tmp_path: Path) -> None:
    """The brokers behind it check them, and their refusals come back as they are."""
    async with guarded(apache, tmp_path) as cluster, behind_proxy(cluster) as proxied:
        told = await try_access(proxied, version, ATTEMPTS)
    assert told == [attempt.expected for attempt in ATTEMPTS]


async def test_batches_and_topics_that_apache_lets_pass_are_checked(tmp_path: Path) -> None:
    """A gap of 4.9.7 that is none here: batches need the permission of their topic, too."""
    setup = ATTEMPTS[:3]
    batches = (
        Attempt(CLERK, "batch", "orders", "anyone", "ok SEND_OK"),
        Attempt(
            CLERK, "batch", "wages", "anyone", REFUSED + "No default permission for topic:wages"
        ),
    )
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(guarded(lanemq, tmp_path / "lanemq"))
        there = await stack.enter_async_context(guarded(apache, tmp_path / "apache"))
        answers = await try_access(here, "4.9.7", (*setup, *batches))
        assert answers[len(setup) :] == [one.expected for one in batches]
        answers = await try_access(there, "4.9.7", (*setup, *batches))
        assert answers[len(setup) :] == ["ok SEND_OK", "ok SEND_OK"]


async def test_the_sdk_is_told_the_same_by_both(tmp_path: Path) -> None:
    told = {}
    for name, maker in (("apache", apache), ("lanemq", lanemq)):
        async with guarded(maker, tmp_path / name) as cluster:
            told[name] = [
                await refusal_of_the_sdk(cluster, account, topic)
                for account, topic in (
                    (CHIEF, "orders"),
                    (CLERK, "orders"),
                    (STRANGER, "orders"),
                    (FORGER, "orders"),
                    (CLERK, "wages"),
                )
            ]
    assert told["lanemq"] == told["apache"]
    assert told["lanemq"][:2] == ["", ""]
    assert all(told["lanemq"][2:])


async def refusal_of_the_sdk(cluster: Cluster, account: tuple[str, str], topic: str) -> str:
    """The refusal of a send by the SDK to a topic that the chief has made; empty if it may."""
    async with open_admin(
        name_servers=cluster.name_server, credentials=credentials(CHIEF), timeout_s=PATIENT_S
    ) as admin:
        (address,) = await admin.masters("DefaultCluster")
        await admin.put_topic(address, TopicConfig(topic, 1, 1))
    await cluster.control.until_routed(topic)
    client = ClientOptions(
        credentials=credentials(account),
        call_timeout_s=PATIENT_S,
        remoting=PATIENT_CLIENT.remoting,
    )
    options = ProducerOptions(client=client, retries=0, send_timeout_s=PATIENT_S)
    async with open_producer(
        "senders", name_servers=cluster.name_server, options=options
    ) as producer:
        try:
            await producer.send(Message(topic=topic, body=b"body"))
        except RefusedByBroker as error:
            return f"{error.code} {words(error.remark or '')}"
    return ""


def credentials(account: tuple[str, str]) -> Credentials:
    return Credentials(access_key=account[0], secret_key=account[1])


NEW = ("lanemqnew", "new12345")
MORE = "accounts:\n  - {accessKey: lanemqtemp, secretKey: temp1234}\n"
CHANGES = (
    ("updateAclConfig", "-a", NEW[0], "-s", NEW[1], "-t", "orders=PUB|SUB", "-g", "readers=SUB"),
    ("deleteAclConfig", "-a", "lanemqtemp"),
    ("updateGlobalWhiteAddr", "-g", "10.7.1.*,10.8.0.1", "-p", "MORE"),
    ("clusterAclConfigVersion",),
    ("updateAclConfig", "-a", CLERK[0], "-s", CLERK[1], "-i", "SUB", "-t", "orders=PUB"),
    ("deleteAclConfig", "-a", "lanemqnobody"),
    ("updateGlobalWhiteAddr", "-g", "10.7.1.1", "-p", "NONE"),
    ("updateAclConfig", "-a", "lanemqbad", "-s", "bad12345", "-t", "orders"),
    ("updateAclConfig", "-a", "lanemqbad", "-s", "bad12345", "-g", "readers=pub"),
    ("updateAclConfig", "-a", "lanemqbad", "-s", "bad12"),
)
"""Commands of mqadmin; ``MORE`` stands for a file in ``conf/acl``, ``NONE`` for one that is not."""
VOLATILE = re.compile(r"@[0-9a-f]+$|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|(?<=secretKey=)(bad12|\*+)(?= )")
"""An object's address, a time of day, and a secret, which lanemq does not repeat."""
AFTER_CHANGES = (
    Attempt(CHIEF, "create", "orders", "", "ok "),
    Attempt(NEW, "send", "orders", "anyone", "ok SEND_OK"),
    Attempt(NEW, "send", "wages", "anyone", REFUSED + "No default permission for topic:wages"),
    Attempt(
        ("lanemqtemp", "temp1234"),
        "send",
        "orders",
        "anyone",
        REFUSED + "No acl config for lanemqtemp",
    ),
)


async def change(cluster: Cluster, folder: Path) -> list[str]:
    """Change accounts by mqadmin; return what it prints, and what is in the files then."""
    address = broker_address(cluster)
    conf = cluster.folder / "home" / "conf"
    paths = {"MORE": str(conf / "acl" / "more.yml"), "NONE": str(conf / "none.yml")}
    told = []
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "tools.yml").write_text(f"accessKey: {CHIEF[0]}\nsecretKey: {CHIEF[1]}\n")
    async with open_mqadmin("4.9.7", folder) as shell:
        for name, *arguments in CHANGES:
            arguments = [paths.get(one, one) for one in arguments]
            printed = await shell.run(name, "-b", address, *arguments)
            told += [*sorted(printed.out.splitlines()), *re.findall("CODE: .*", printed.err)]
    for path in (conf / "plain_acl.yml", conf / "acl" / "more.yml"):
        loaded = yaml.safe_load(path.read_bytes())
        (version,) = loaded["dataVersion"]
        assert version.pop("timestamp") > 1_700_000_000_000
        told.append(json.dumps(loaded, sort_keys=True))
    texts = (one.replace(address, "ADDRESS").replace(str(conf), "CONF") for one in told)
    return [VOLATILE.sub("…", one) for one in texts]


async def test_mqadmin_changes_accounts_as_at_apache(tmp_path: Path) -> None:
    printed, told = {}, {}
    for name, maker in (("apache", apache), ("lanemq", lanemq)):
        more = tmp_path / name / "home" / "conf" / "acl" / "more.yml"
        more.parent.mkdir(parents=True)
        more.write_text(MORE)
        async with guarded(maker, tmp_path / name) as cluster:
            printed[name] = await change(cluster, tmp_path / name / "mqadmin")
            told[name] = await try_access(cluster, "4.9.7", AFTER_CHANGES)
    assert printed["lanemq"] == printed["apache"]
    expected = [attempt.expected for attempt in AFTER_CHANGES]
    assert told["apache"] == expected, "the control"
    assert told["lanemq"] == expected
