"""The parts of a tool's output that differ from run to run, replaced by names."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..servers._volatile import without_volatile
from ._steps import Step

PATTERNS: Final = (
    # The client that a tool opens, and the ids it makes.
    (r"\b127\.0\.0\.1@[^\s,;\"]+", "CLIENT"),
    (r"\b(?:TOOLS|SELF_TEST|FILTERSRV|_)?_?[A-Z_]*_?CONSUMER_?\d{13}\b", "GROUP"),
    (r"\b[0-9A-F]{32,}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]?#?\d\d:\d\d:\d\d(?:[.,:]\d{1,3})?", "TIME"),
    (r"\b1[6-9]\d{11}\b", "MILLIS"),
    (r"\bV\d_\d+_\d+\b", "VERSION"),
    (r"/127\.0\.0\.1:\d+|\b127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\S*/mqadmin-[\d.]+-home/", "HOME/"),
    (r"\b\d+\.\d+(?:E-?\d+)?\b", "NUMBER"),
    (r"\b\d{14,17}\b", "STAMP"),
    (r"\b\d+ ?ms\b", "N ms"),
    (r"\btimeout, \d+\(ms\)", "timeout"),
    (r"@[0-9a-f]{6,8}\b", "@OBJECT"),
    (r"(Message Body Path: +)\S+", r"\1PATH"),
    (r"(cost(?: time)?[:=] ?|spentTimeMills=|\"counter\":)\d+", r"\1N"),
    # Where messages lie, and how long they are with what a broker adds.
    (r"\b(storeSize=|commitLogOffset=|physicOffset=|physicSize=)\d+", r"\1N"),
    (r"(?m)^((?:CommitLog Offset|Store Size|Commit Log Offset): +)\d+", r"\1N"),
    (r"(?:tmp/)?[\w./-]*/store/commitlog", "STORE"),
)
"""Applied in this order, behind the names that are known exactly."""

NO_ERRORS: Final = r"at |\.\.\. \d+ more|WARNING:|SLF4J|See http|For more information, please"
"""Lines among errors that say nothing: places in the source, and where to read about errors."""

LATE: Final = (
    r"(?:DefaultCluster )?RMQ_SYS_TRANS_(?:OP_)?HALF_TOPIC"
    r"|producer group \(CLIENT_INNER_PRODUCER\) .*"
)
"""Lines that are there or not: topics that a broker makes as soon as it has looked for
transactions, and clients of the tool's own that have just gone."""


INTERRUPTED: Final = re.compile(
    r"! [^\n]*\.SubCommandException: \w+ command failed\n"
    r"! Caused by: java\.lang\.InterruptedException: [^\n]*"
)
"""Two lines of a command that is interrupted, if it slept just then."""


def masked(step: Step, text: str, errors: str, known: Mapping[str, str]) -> list[str]:
    """Return the lines of an output that can be compared; those of errors begin with ``!``."""
    lines = [*_lines(text, known), *(f"! {line}" for line in _errors(_lines(errors, known)))]
    lines = [line for line in lines if not re.fullmatch(LATE, line)]
    if step.numbers:
        lines = [re.sub(r"\b\d+\b|\([^)]*\)", "N", line) for line in lines]
    if step.seconds is not None:
        text = INTERRUPTED.sub("", "\n".join(dict.fromkeys(lines)))
        lines = [line for line in text.split("\n") if line]
    if step.keys_only:
        lines = sorted({_key(line) for line in lines})
    if step.file is not None:
        # Maps in no order, and topics that come late, have members like others.
        lines = sorted({line for line in lines if "RMQ_SYS_TRANS_" not in line})
    return lines if step.in_order else sorted(lines)


def _lines(text: str, known: Mapping[str, str]) -> list[str]:
    text = without_volatile(text)
    for value, name in sorted(known.items(), key=lambda item: -len(item[0])):
        text = text.replace(value, name)
    for pattern, name in PATTERNS:
        text = re.sub(pattern, name, text)
    return [" ".join(_in_order(line).split()) for line in text.splitlines() if line.strip()]


def _errors(lines: Iterable[str]) -> list[str]:
    """Return the lines of errors without the places in a program's source."""
    return [line for line in lines if not re.match(NO_ERRORS, line)]


def _in_order(line: str) -> str:
    """Sort the properties of a message, which are a map."""
    return re.sub(
        r"((?:Properties: +|properties=)\{)([^}]*)(\})",
        lambda found: found[1] + ", ".join(sorted(found[2].split(", "))) + found[3],
        line,
    )


def _key(line: str) -> str:
    return re.sub(r"\s*[:=].*", "", line)
