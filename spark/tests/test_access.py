"""A cluster with accounts that speaks nothing but TLS: what the options give access to."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from lanemq.compat import Cluster, lanemq_cluster
from lanemq.sdk import Credentials
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.certificates import Authority
from lanemq.testkit.servers import PATIENT_S, TEST_SETTINGS
from lanemq.testkit.spark import require_packages
from lanemq.wire.bodies import TopicConfig

require_packages()

from pyspark.errors import PySparkException  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
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
      - orders=PUB
"""
CHIEF = {"accessKey": "lanemqchief", "secretKey": "chief1234"}
CLERK = {"accessKey": "lanemqclerk", "secretKey": "clerk1234"}
FORGER = {"accessKey": "lanemqchief", "secretKey": "clerk1234"}


def test_accounts_and_tls_open_what_they_are_for(
    spark: "SparkSession",
    tmp_path: Path,
    running_beside: Callable[[Callable[[], Cluster]], AbstractContextManager[Cluster]],
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue()
    conf = tmp_path / "home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    tls = tmp_path / "tls.properties"
    tls.write_text(
        f"tls.server.certPath={own.certificate}\ntls.server.keyPath={own.key}\n"
        f"tls.client.trustCertPath={authority.path}\n"
    )
    settings = {
        **TEST_SETTINGS,
        "aclEnable": "true",
        "rocketmqHome": str(tmp_path / "home"),
        "tls.server.mode": "enforcing",
        "tls.config.file": str(tls),
    }

    def use(name_server: str) -> None:
        encrypted = {"tls": "true", "tlsTrustCertificates": str(authority.path)}
        common = {"nameserver": name_server}

        def write(**options: str) -> None:
            rows = spark.range(40).selectExpr("concat('order ', id) as body")
            writer = rows.write.format("rocketmq").options(**common, **options)
            writer.option("retries", "0").option("sendTimeoutMs", "60000")  # each row once
            writer.option("topic", "orders").mode("append").save()

        def count(**options: str) -> int:
            reader = spark.read.format("rocketmq").options(**common, **options)
            return reader.option("subscribe", "orders").load().count()

        write(**encrypted, **CLERK)
        assert count(**encrypted, **CHIEF) == 40
        with pytest.raises(PySparkException, match="No accessKey is configured"):
            count(**encrypted)
        with pytest.raises(PySparkException, match="Check signature failed for accessKey"):
            count(**encrypted, **FORGER)
        with pytest.raises(PySparkException, match="No default permission for topic:orders"):
            count(**encrypted, **CLERK)
        with pytest.raises(PySparkException, match=r"tried 1 times"):
            count(retries="0", **CHIEF)  # without TLS
        stranger = Authority(tmp_path, "other").path
        with pytest.raises(PySparkException, match=r"tried 1 times"):
            count(retries="0", tls="true", tlsTrustCertificates=str(stranger), **CHIEF)

    trusted = authority.trusted(own)
    chief = Credentials(access_key="lanemqchief", secret_key="chief1234")

    async def make_topic(name_server: str) -> None:
        async with open_admin(
            name_servers=name_server, credentials=chief, tls=trusted, timeout_s=PATIENT_S
        ) as admin:
            (broker,) = (await admin.cluster()).broker_addr_table.values()
            config = TopicConfig("orders", read_queue_nums=2, write_queue_nums=2)
            await admin.put_topic(broker.broker_addrs[0], config)
            while "orders" not in await admin.topics():  # noqa: ASYNC110 - asking is the way
                await trio.sleep(0.05)

    with running_beside(
        lambda: lanemq_cluster(tmp_path, settings=settings, tls=trusted)
    ) as cluster:
        trio.run(make_topic, cluster.name_server)
        use(cluster.name_server)
