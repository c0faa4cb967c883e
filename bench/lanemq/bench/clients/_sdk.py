"""Clients measured in turn against one Apache broker: the SDK, the Java client, other Python ones.

The broker stays up for all rounds, and so do the client processes, all but one of them idle. The
clients take turns at every measurement, and who goes first changes from round to round.
"""

import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import trio

from lanemq.compat import (
    BuildFailed,
    Cluster,
    CompatError,
    Driver,
    apache_cluster,
    built,
    java_libraries,
    open_driver,
    run_tool,
    running,
)

from .._broker import APACHE_VERSION, CLIENT, Plan, client_command
from .._results import SdkBench, median_ratios, processor_s, this_machine
from ._staged import bench_staged

OURS = "lanemq"
BLOCKING, AIO = "lanemq-blocking", "lanemq-aio"
FACES = (OURS, BLOCKING, AIO)
JAVA = "java-4.9.7"
PYROCKETMQ = "pyrocketmq-0.3.4"
PYROCKETMQ_PARTS = ("pyrocketmq==0.3.4", "JPype1==1.7.1")
SDK_CLIENT = [sys.executable, "-m", "lanemq.bench.clients._sdk_client"]
FACES_CLIENT = [sys.executable, "-m", "lanemq.bench.clients._faces_client"]
MEASURES = ("send_1", "send_16", "send_64", "consume")
STORED = 100_000
"""Messages that each consumer reads."""
SEND_TOPIC, CONSUME_TOPIC = "bench-send", "bench-consume"
PATIENT = {"waitTimeMillsInSendQueue": "10000", "osPageCacheBusyTimeOutMills": "10000"}
"""Broker settings for few processors, where a send may wait for longer than the default allows."""

Say = Callable[[str], None]
Samples = dict[str, dict[str, list[float]]]
"""Client -> measure -> one figure per round."""


@dataclass(slots=True)
class _Clients:
    """Programs that are ready, and why others are not."""

    drivers: dict[str, Driver]
    missing: dict[str, str]


async def bench_sdk(plan: Plan, say: Say) -> SdkBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where the broker or a client fails."""
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-") as name:
        folder = Path(name)
        cluster = await trio.to_thread.run_sync(
            lambda: apache_cluster(
                APACHE_VERSION, folder / "apache", settings=PATIENT, heap="1g", light=False
            )
        )
        async with running(cluster, graceful=False), _open_clients(folder) as clients:
            for client, reason in clients.missing.items():
                say(f"{client}: {reason}")
            samples, spent = await _measure(plan, say, cluster, clients.drivers)
            staged = await bench_staged(
                plan.rounds,
                say,
                cluster,
                clients.drivers[OURS],
                topic=CONSUME_TOPIC,
                count=STORED,
            )
    return SdkBench(
        machine=machine,
        rounds=plan.rounds,
        samples=samples,
        ratios={
            client: median_ratios(samples, ours=OURS, theirs=client)
            for client in samples
            if client != OURS
        },
        processor_us=spent,
        processor_ratios={
            face: median_ratios(spent, ours=JAVA, theirs=face) for face in FACES if face in spent
        },
        missing=clients.missing,
        staged=staged,
    )


@asynccontextmanager
async def _open_clients(folder: Path) -> AsyncIterator[_Clients]:
    commands = {
        OURS: SDK_CLIENT,
        BLOCKING: [*FACES_CLIENT, "blocking"],
        AIO: [*FACES_CLIENT, "aio"],
        JAVA: await trio.to_thread.run_sync(client_command),
    }
    missing = {}
    try:
        commands[PYROCKETMQ] = await trio.to_thread.run_sync(_pyrocketmq, folder)
    except BuildFailed as error:
        missing[PYROCKETMQ] = f"not installable: {error}"
    async with AsyncExitStack() as stack:
        drivers = {
            name: await stack.enter_async_context(open_driver(name, command, folder))
            for name, command in commands.items()
        }
        yield _Clients(drivers, missing)


def _pyrocketmq(folder: Path) -> list[str]:
    """Return the command line of pyrocketmq's program, in an environment of its own."""

    def make(place: Path) -> None:
        run_tool([sys.executable, "-m", "venv", place / "venv"], folder=place)
        python = place / "venv" / "bin" / "python"
        run_tool([python, "-m", "pip", "install", "--quiet", *PYROCKETMQ_PARTS], folder=place)

    place = built("python", "pyrocketmq", [*PYROCKETMQ_PARTS, sys.version], make)
    script = folder / "pyrocketmq_client.py"
    source = files("lanemq.bench").joinpath("python", "pyrocketmq_client.py")
    script.write_text(source.read_text(encoding="utf-8"))
    return [str(place / "venv" / "bin" / "python"), str(script), str(java_libraries(CLIENT))]


async def _measure(
    plan: Plan, say: Say, cluster: Cluster, drivers: dict[str, Driver]
) -> tuple[Samples, Samples]:
    """Return the rates, and what each client's process spent on a message."""
    for topic in (SEND_TOPIC, CONSUME_TOPIC):
        await cluster.control.create_topic(topic)
    say(f"storing {STORED} messages")
    fill = {"name_server": cluster.name_server, "topic": CONSUME_TOPIC, "count": STORED}
    await drivers[JAVA].call("fill", **fill)
    for client, driver in drivers.items():
        for measure in MEASURES:
            rate, _ = await _rate(driver, cluster, measure, plan.warm_up_s, f"{client}-warm-up")
            say(f"{client}: {measure} warming up, {rate:,.0f} messages/s")
    samples, spent = (
        Samples({client: {measure: [] for measure in MEASURES} for client in drivers})
        for _ in range(2)
    )
    for number in range(plan.rounds):
        for measure in MEASURES:
            order = list(drivers)
            turn = number % len(order)
            for client in order[turn:] + order[:turn]:
                label = f"{client}-round-{number}"
                rate, us = await _rate(drivers[client], cluster, measure, plan.seconds, label)
                samples[client][measure].append(rate)
                spent[client][measure].append(us)
                say(f"round {number + 1}: {client}: {measure} {rate:,.0f} messages/s, {us:.1f} us")
    return samples, spent


async def _rate(
    driver: Driver, cluster: Cluster, measure: str, seconds: float, label: str
) -> tuple[float, float]:
    """Take one measurement and return its rate in messages per second, and what the client's
    process spent on a message, in microseconds."""
    common = {"name_server": cluster.name_server}
    begun_s = processor_s(driver.pid)
    try:
        if measure == "consume":
            group = f"bench-{label}".replace(".", "_")
            answer = await driver.call(
                "consume", **common, topic=CONSUME_TOPIC, group=group, count=STORED
            )
        else:
            threads = int(measure.removeprefix("send_"))
            answer = await driver.call(
                "send", **common, topic=SEND_TOPIC, seconds=seconds, threads=threads
            )
    except CompatError as error:
        error.add_note(f"measuring {measure}, {label}")
        raise
    messages, spent_s = float(answer["messages"]), processor_s(driver.pid) - begun_s
    return round(messages / float(answer["seconds"]), 1), round(spent_s * 1e6 / messages, 2)
