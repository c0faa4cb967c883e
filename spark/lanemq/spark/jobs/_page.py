"""The page of a report: charts by plotly, whose script is in the page."""

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final, final

from lanemq.wire import show_text

from .._errors import SourceError

if TYPE_CHECKING:
    from ._lag import Lag
    from ._stages import StageProgress

COLOURS: Final = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d",
    "#ff9da6", "#2f4b7c", "#8a8a8a",
)  # fmt: skip
LABEL_MAX: Final = 200
"""Characters of a name in a chart."""
STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1f2328; background: #fff }
h1 { font-size: 1.5rem; margin-bottom: .2rem; overflow-wrap: anywhere }
h2 { font-size: 1.1rem; margin: 2rem 0 0 }
dl { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1rem 0 }
dt { color: #57606a; font-size: .85rem } dd { margin: 0; font-size: 1.2rem; font-weight: 600 }
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The contents of a page. Times are seconds since 1970."""

    source: str
    messages: int
    size_bytes: int
    topics: int
    first_s: int | None
    last_s: int | None
    step_s: int
    rates: dict[str, dict[int, float]]
    """Topic -> time -> messages per second in the step from then on."""
    topic_bytes: dict[str, int]
    sizes: dict[int, int]
    """A power of two -> records of up to that number of bytes, and more than half of it."""
    tags: dict[str, int]
    lags: "list[Lag]"
    stages: "list[StageProgress]"


def draw(page: Page) -> str:
    """Return the page as HTML. Raises ``SourceError`` without plotly."""
    try:
        from plotly import graph_objects, offline
    except ModuleNotFoundError as error:
        raise SourceError("plotly is not installed: pip install 'lanemq[spark]'") from error
    go: Any = graph_objects
    parts = []
    for number, (title, bars, x_title, y_title) in enumerate(_charts(go, page)):
        figure = go.Figure(bars)
        figure.update_layout(
            barmode="stack",
            template="plotly_white",
            height=340,
            margin={"l": 60, "r": 20, "t": 20, "b": 50},
            xaxis_title=x_title,
            yaxis_title=y_title,
            showlegend=len(bars) > 1,
        )
        made = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=f"chart-{number}",
            config={"displaylogo": False, "responsive": True},
        )
        parts.append(f"<h2>{escape(title)}</h2>\n{made}")
    script = offline.get_plotlyjs()
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _facts(page))
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(show_text(page.source))}</title>\n<style>{STYLE}</style>\n"
        f"<script>{script}</script>\n</head>\n<body>\n<h1>{escape(show_text(page.source))}</h1>\n"
        f"<dl>{facts}</dl>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _charts(go: Any, page: Page) -> list[tuple[str, list[Any], str, str]]:  # noqa: ANN401 - plotly has no types
    """Return title, bars, and the names of the axes of each chart."""
    rates = [
        go.Bar(
            name=_label(topic),
            x=[datetime.fromtimestamp(at, UTC) for at in points],
            y=list(points.values()),
            width=page.step_s * 1000,
            offset=0,
            marker_color=COLOURS[number % len(COLOURS)],
        )
        for number, (topic, points) in enumerate(sorted(page.rates.items()))
    ]
    late = [one for one in page.lags if one.lag]
    lags = [f"{_label(one.group)}<br>{_label(one.topic)} {one.queue}" for one in late]
    behind = [one.lag for one in late]
    topics, tags = list(map(_label, page.topic_bytes)), list(map(_label, page.tags))
    one_colour = {"marker_color": COLOURS[0]}
    sizes = [_size_text(size) for size in page.sizes]
    charts = [
        ("Messages per second", rates, "time (UTC)", "messages per second"),
        (
            "Bytes of topics",
            [
                go.Bar(
                    x=topics,
                    y=list(page.topic_bytes.values()),
                    **one_colour,
                )
            ],
            "topic",
            "bytes in the log",
        ),
        (
            "Sizes of records",
            [go.Bar(x=sizes, y=list(page.sizes.values()), **one_colour)],
            "up to",
            "messages",
        ),
        (
            "Tags",
            [go.Bar(x=tags, y=list(page.tags.values()), **one_colour)],
            "tags",
            "messages",
        ),
    ]
    if behind:
        bars = [go.Bar(x=lags, y=behind, **one_colour)]
        charts.append(("Lags of groups", bars, "group, topic, queue", "messages"))
    if page.stages:
        charts.append(("Stages", _stage_bars(go, page), "group, topic, queue", "messages"))
    return charts


def _stage_bars(go: Any, page: Page) -> list[Any]:  # noqa: ANN401 - plotly has no types
    """Return, for each queue that is consumed in stages, what is finished and what waits."""
    names = [
        "<br>".join(
            _label(part) for part in (one.group, one.strategy, f"{one.topic} {one.queue}") if part
        )
        + (" (broker)" if one.kept_by == "broker" else "")
        for one in page.stages
    ]
    finished = [one.finished for one in page.stages]
    waiting = [one.waiting for one in page.stages]
    return [
        go.Bar(name="finished since counting began", x=names, y=finished, marker_color=COLOURS[2]),
        go.Bar(name="waiting", x=names, y=waiting, marker_color=COLOURS[1]),
    ]


def _label(name: str) -> str:
    """Return a name that peers chose for a chart, which takes tags of HTML for orders."""
    return escape(show_text(name, LABEL_MAX))


def _facts(page: Page) -> list[tuple[str, str]]:
    facts = [
        ("messages", f"{page.messages:,}"),
        ("bytes", _size_text(page.size_bytes)),
        ("topics", f"{page.topics:,}"),
    ]
    if page.first_s is not None and page.last_s is not None:
        for name, at in (("first", page.first_s), ("last", page.last_s)):
            facts.append((name, f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"))
    return facts


def _size_text(size_bytes: int) -> str:
    value = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
