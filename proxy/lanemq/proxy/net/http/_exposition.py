"""Numbers in Prometheus's text form, made in short turns of the loop."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, NamedTuple, final

import trio

CHUNK_SAMPLES: Final = 500
"""Samples between two turns: some 2 ms."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Family(NamedTuple):
    """The samples of one metric."""

    name: str
    """A counter's ends with ``_total``."""
    help: str
    labels: tuple[str, ...]
    samples: Iterable[tuple[tuple[str, ...], float]]
    """The values of the labels, and the number; read while the text is made."""

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


async def render(families: Iterable[Family]) -> bytes:
    """Return the text. Raises ``ModuleNotFoundError`` without ``prometheus_client``."""
    from prometheus_client import generate_latest
    from prometheus_client.core import Metric

    parts: list[str] = []
    for family in families:
        kind = "counter" if family.is_counter else "gauge"
        samples, is_first = iter(family.samples), True
        while chunk := list(islice(samples, CHUNK_SAMPLES)):
            if is_first:
                collector: Any = _One(Metric(family.name.removesuffix("_total"), family.help, kind))
                parts.append(bytes(generate_latest(collector)).decode())
                is_first = False
            parts.append(_lines(family, chunk))
            await trio.lowlevel.checkpoint()
    return "".join(parts).encode("utf-8", "replace")


def _lines(family: Family, samples: list[tuple[tuple[str, ...], float]]) -> str:
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
