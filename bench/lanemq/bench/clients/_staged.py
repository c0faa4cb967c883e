"""Bench of stages: the SDK's staged listener beside its concurrent one, and an example.

Both read the same messages from the same broker, in turn, with listeners that do nothing; with
large stages there is little to wait for, so that what differs is the scheduler. In the example of
the proposal a queue has stages of 10, 20 and 70 messages, each of which takes a second, 20 at once:
stage by stage that is six seconds.
"""

import statistics
from collections.abc import Callable

from lanemq.compat import Cluster, Driver

from .._results import StagedBench

CONCURRENT, STAGED = "concurrent", "staged"
LARGE_STAGES = [10_000, 10_000]
"""Stages of each of the four queues; what follows has no order."""
EXAMPLE_STAGES = [10, 20, 70]
EXAMPLE_TAKES_S = 1.0


async def bench_staged(
    rounds: int,
    say: Callable[[str], None],
    cluster: Cluster,
    driver: Driver,
    *,
    topic: str,
    count: int,
) -> StagedBench:
    """Let the SDK's program read ``count`` messages of ``topic`` in both ways, and the example."""
    rates: dict[str, list[float]] = {CONCURRENT: [], STAGED: []}
    processor_us: dict[str, list[float]] = {CONCURRENT: [], STAGED: []}
    example_s = []
    for number in range(-1, rounds):  # the first is thrown away
        for way in (CONCURRENT, STAGED) if number % 2 else (STAGED, CONCURRENT):
            answer = await driver.call(
                "consume",
                name_server=cluster.name_server,
                topic=topic,
                group=f"bench-stages-{way}-{number + 1}",
                count=count,
                stages=LARGE_STAGES if way == STAGED else None,
            )
            rate = round(float(answer["messages"]) / float(answer["seconds"]), 1)
            if number >= 0:
                rates[way].append(rate)
                processor_us[way].append(round(float(answer["processor_s"]) * 1e6 / count, 2))
                say(f"round {number + 1}: {way} listener {rate:,.0f} messages/s")
        if number < 0:
            continue
        example = f"bench-example-{number + 1}"
        await cluster.control.create_topic(example, 1)
        answer = await driver.call(
            "stages",
            name_server=cluster.name_server,
            topic=example,
            group=example,
            stages=EXAMPLE_STAGES,
            takes_s=EXAMPLE_TAKES_S,
        )
        example_s.append(round(float(answer["seconds"]), 3))
        say(f"round {number + 1}: the proposal's example {example_s[-1]:.3f} s")
    staged, concurrent = (statistics.median(processor_us[way]) for way in (STAGED, CONCURRENT))
    return StagedBench(
        rates=rates,
        processor_us=processor_us,
        overhead=round(staged / concurrent - 1, 3),
        example_s=example_s,
    )
