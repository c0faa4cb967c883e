"""Numbers in Prometheus's text form, made in short turns of the loop."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, final

import trio

CHUNK_LOOKS: Final = 500
"""Samples, and entries that gave none, between two turns: some 2 ms."""
FAMILY_SAMPLES_MAX: Final = 50_000
"""Samples of one metric; where there are more, the rest is left out, and a metric of its own says
so. A table of progress may have a row for each group and topic, millions of them."""
LEFT_OUT: Final = "lanemq_metrics_left_out"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the number."""
Samples = Iterator[Sample | int]
"""Samples, and before each, or in place of one, how many entries more were looked at for it: a
table may have many entries, and few samples."""


class Family(NamedTuple):
    """The samples of one metric."""

    name: str
    """A counter's ends with ``_total``."""
    help: str
    labels: tuple[str, ...]
    samples: Iterable[Sample | int]
    """As ``Samples``; read while the text is made."""

    @property
    def is_counter(self) -> bool:
        """True for a number that only grows."""
        return self.name.endswith("_total")


@final
class _One:
    """A collector of one metric, which ``generate_latest`` asks for."""

    def __init__(self, metric: object) -> None:
        self._metric = metric

    def collect(self) -> Iterable[object]:
        return (self._metric,)


async def render(families: Iterable[Family]) -> list[bytes]:
    """Return the text, in parts. Raises ``ModuleNotFoundError`` without ``prometheus_client``."""
    from prometheus_client import generate_latest
    from prometheus_client.core import Metric

    parts: list[bytes] = []
    left_out: list[Sample] = []
    rest = Family(LEFT_OUT, "Metrics of which samples are left out.", ("metric",), left_out)
    for family in chain(families, (rest,)):
        kind = "counter" if family.is_counter else "gauge"
        samples = 0
        for chunk in _chunks(family.samples):
            if chunk and not samples:
                collector: Any = _One(Metric(family.name.removesuffix("_total"), family.help, kind))
                parts.append(bytes(generate_latest(collector)))
            samples += len(chunk)
            parts.append(_lines(family, chunk).encode("utf-8", "replace"))
            await trio.lowlevel.checkpoint()
            if samples >= FAMILY_SAMPLES_MAX:
                left_out.append(((family.name,), 1))
                break
    return parts


def _chunks(samples: Iterable[Sample | int]) -> Iterator[list[Sample]]:
    """Cut samples into what one turn makes, which may be none."""
    chunk: list[Sample] = []
    looks = 0
    for sample in samples:
        if isinstance(sample, int):
            looks += sample
        else:
            looks += 1
            chunk.append(sample)
        if looks >= CHUNK_LOOKS:
            yield chunk
            chunk, looks = [], 0
    yield chunk


def _lines(family: Family, samples: list[Sample]) -> str:
    """Write samples; ``generate_latest`` would take six times as long."""
    name, names = family.name, family.labels
    if not names:
        return "".join(f"{name} {float(number)!r}\n" for _, number in samples)
    form = f"{name}{{" + ",".join(f'{label}="%s"' for label in names) + "} %r\n"
    return "".join(form % (*map(_escaped, values), float(number)) for values, number in samples)


def _escaped(value: str) -> str:
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value
