"""lanemq's broker and Apache's, measured in turn by the same Java client program.

Both servers stay up for all rounds, one idle while the other is measured, and take turns in
being first, so that whatever else the machine does hits both. Apache has its default settings
and a heap of 1 GiB; lanemq has its defaults too, and a certificate: Apache makes up one itself.
Beside each runs another one of its kind that checks every request by users and policies.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import trio

from lanemq.compat import (
    Cluster,
    Driver,
    apache_cluster,
    java_program,
    lanemq_cluster,
    open_driver,
    running,
)
from lanemq.proxy.tls import TlsMode, make_self_signed

from ._accounts import APACHE_SETTINGS, CLERK, SETTINGS, admit_clerk
from ._results import (
    MEASURES,
    BrokerBench,
    Machine,
    acl_to_plain,
    median_ratios,
    resident_mib,
    this_machine,
)

APACHE_VERSION = "5.3.3"
CLIENT = "client-acl-4.9.7"
OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
)
TLS = "-Dtls.enable=true"
BATCH = 32
STORED = 100_000
"""Messages in a server when its memory is looked at; also what each consumer reads."""
SEND_TOPIC, CONSUME_TOPIC = "bench-send", "bench-consume"
TRANSACTION_TOPIC = "bench-transactions"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Durations of a measurement."""

    rounds: int = 5
    seconds: float = 3.0
    """Length of each sending measurement."""
    warm_up_s: float = 6.0
    """Length of each sending measurement before the first round, which nobody reads."""


async def bench_broker(plan: Plan, say: Say) -> BrokerBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or the client fails."""
    machine = this_machine()
    command = await trio.to_thread.run_sync(client_command)
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-") as name:
        folder = Path(name)
        certificates = make_self_signed(folder / "tls", ["127.0.0.1"], mode=TlsMode.PERMISSIVE)
        tls = {"tls.config.file": str(certificates.properties)}
        ours, our_guarded = (
            lanemq_cluster(folder / name, settings=settings)
            for name, settings in (("lanemq", tls), ("lanemq-acl", SETTINGS))
        )
        theirs = await trio.to_thread.run_sync(_apache, folder / "apache", {})
        their_guarded = await trio.to_thread.run_sync(
            _apache, folder / "apache-acl", APACHE_SETTINGS
        )
        async with (
            running(ours),
            running(our_guarded),
            running(theirs, graceful=False),
            running(their_guarded, graceful=False),
            open_driver("bench", command, folder) as driver,
            open_driver("bench-tls", [command[0], TLS, *command[1:]], folder) as tls_driver,
        ):
            guarded = {ours.name: our_guarded, theirs.name: their_guarded}
            bench = _Bench(driver, tls_driver, guarded, plan)
            return await _measure(bench, say, machine=machine, clusters=[ours, theirs])


def _apache(folder: Path, settings: Mapping[str, str]) -> Cluster:
    return apache_cluster(APACHE_VERSION, folder, settings=settings, heap="1g", light=False)


def compile_client() -> str:
    """Compile the Java client program, and return its class path. Blocks."""
    source = files("lanemq.bench").joinpath("java", "Bench.java").read_text(encoding="utf-8")
    return java_program("bench", {"Bench.java": source}, CLIENT)


def client_command() -> list[str]:
    """Return the command line of the Java client program, compiling it if needed. Blocks."""
    options = [*OPENS, "-Xmx512m", "-Drocketmq.client.logUseSlf4j=false"]
    return ["java", *options, "-cp", compile_client(), "Bench"]


@dataclass(frozen=True, slots=True)
class _Bench:
    """Calls of the client program, for one server each."""

    driver: Driver
    tls_driver: Driver
    """The same program, whose clients speak TLS."""
    guarded: Mapping[str, Cluster]
    """Name of a server -> the one of its kind with users and policies."""
    plan: Plan

    async def measure(self, cluster: Cluster, measure: str, label: str) -> float:
        """Take one measurement and return its rate in messages per second."""
        if measure == "consume":
            return await self._rate(
                "consume", cluster, topic=CONSUME_TOPIC, group=f"bench-{label}", count=STORED
            )
        seconds = self.plan.warm_up_s if label == "warm-up" else self.plan.seconds
        if measure == "batch":
            return await self._rate("batch", cluster, topic=SEND_TOPIC, seconds=seconds, size=BATCH)
        kind, _, threads = measure.partition("_")
        if kind == "transactions":
            return await self._rate(
                kind, cluster, topic=TRANSACTION_TOPIC, seconds=seconds, threads=int(threads)
            )
        account = {"access_key": CLERK.access_key, "secret_key": CLERK.secret_key}
        return await self._rate(
            "send",
            self.guarded[cluster.name] if kind == "acl" else cluster,
            driver=self.tls_driver if kind == "tls" else self.driver,
            topic=SEND_TOPIC,
            seconds=seconds,
            threads=int(threads),
            **(account if kind == "acl" else {}),
        )

    async def fill(self, cluster: Cluster) -> None:
        """Put ``STORED`` messages of 256 bytes into the topic that consumers read."""
        await self._rate("fill", cluster, topic=CONSUME_TOPIC, count=STORED)

    async def _rate(
        self, command: str, cluster: Cluster, driver: Driver | None = None, **arguments: object
    ) -> float:
        driver = driver or self.driver
        answer = await driver.call(command, name_server=cluster.name_server, **arguments)
        return round(float(answer["messages"]) / float(answer["seconds"]), 1)


async def _measure(
    bench: _Bench, say: Say, *, machine: Machine, clusters: list[Cluster]
) -> BrokerBench:
    plan = bench.plan
    rss_mib = {}
    for cluster in clusters:
        for topic in (SEND_TOPIC, CONSUME_TOPIC, TRANSACTION_TOPIC):
            await cluster.control.create_topic(topic)
        await admit_clerk(bench.guarded[cluster.name], SEND_TOPIC)
        say(f"{cluster.name}: storing {STORED} messages")
        await bench.fill(cluster)
        rss_mib[cluster.name] = resident_mib([daemon.pid for daemon in cluster.daemons])
    for cluster in clusters:
        for measure in MEASURES:
            rate = await bench.measure(cluster, measure, "warm-up")
            say(f"{cluster.name}: {measure} warming up, {rate:,.0f} messages/s")
    samples: dict[str, dict[str, list[float]]] = {
        cluster.name: {measure: [] for measure in MEASURES} for cluster in clusters
    }
    for number in range(plan.rounds):
        for measure in MEASURES:
            for cluster in clusters if number % 2 == 0 else reversed(clusters):
                rate = await bench.measure(cluster, measure, f"round-{number}")
                samples[cluster.name][measure].append(rate)
                say(f"round {number + 1}: {cluster.name}: {measure} {rate:,.0f} messages/s")
    ours, theirs = (cluster.name for cluster in clusters)
    return BrokerBench(
        machine=machine,
        rounds=plan.rounds,
        samples=samples,
        ratios=median_ratios(samples, ours=ours, theirs=theirs),
        start_s={
            cluster.name: round(sum(daemon.ready_after_s for daemon in cluster.daemons), 2)
            for cluster in clusters
        },
        rss_mib=rss_mib,
        messages_stored=STORED,
        acl_to_plain=acl_to_plain(samples),
    )
