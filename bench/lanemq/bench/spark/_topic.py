"""A topic of lanemq's broker, read by Spark and by the push consumer of the Java client in turn."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio

from lanemq.compat import lanemq_cluster, open_driver, running

from .._broker import client_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC: Final = "bench-spark"
QUEUES: Final = 8
PROCESS: Final = "java"
SPARK: Final = "topic through a broker"
JAVA: Final = "topic, Java push consumer"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The measures; both read all of the topic, with every column, or message, whole."""

    messages: int
    body_bytes: int
    rounds: int
    folder: Path


async def bench_topic(spark: "SparkSession", plan: TopicPlan) -> list[tuple[str, int, float]]:
    """Fill a topic and read it; returns measure, messages found and seconds of each round.

    Raises ``lanemq.compat.CompatError``.

    The time of the Java client runs from its first message to its last, that of Spark from the
    query to its result. A round of each before the first does not count.
    """
    rounds: list[tuple[str, int, float]] = []
    command = await trio.to_thread.run_sync(client_command)
    cluster = lanemq_cluster(plan.folder / "lanemq", settings={})
    async with running(cluster), open_driver(PROCESS, command, plan.folder) as driver:
        await cluster.control.create_topic(TOPIC, QUEUES)
        asked = {"name_server": cluster.name_server, "topic": TOPIC, "count": plan.messages}
        await driver.call("fill", **asked, body_bytes=plan.body_bytes)
        for number in range(-1, plan.rounds):
            answer = await driver.call("consume", **asked, group=f"bench-spark-{number + 1}")
            begun_s = time.perf_counter()
            found = await trio.to_thread.run_sync(_count, spark, cluster.name_server)
            seconds = time.perf_counter() - begun_s
            if number >= 0:
                rounds.append((SPARK, found, seconds))
                rounds.append((JAVA, int(answer["messages"]), float(answer["seconds"])))
    return rounds


def _count(spark: "SparkSession", name_server: str) -> int:
    # Spark's Python sources are not told that a count needs no columns: all of them are made.
    reader = spark.read.format("rocketmq").option("nameserver", name_server)
    return int(reader.option("subscribe", TOPIC).load().count())
