"""Values that do not belong where they are put: for ext fields, and for members of JSON."""

import random
from typing import Any, Final

NUMBERS: Final = (
    *("", "-1", "0", "1", "7", "1e5", "1.5", "+1", " 1", "0x10", "NaN", "\u0661"),
    *("2147483647", "2147483648", "-2147483649", "9223372036854775807", "1" + "0" * 30),
    "9" * 5000,
)
NAMES: Final = (
    *("T", "U", "g", "h", "", " ", "*", "%RETRY%g", "%DLQ%g", "%RETRY%", "TBW102", "null"),
    *("a" * 127, "a" * 128, "a" * 249, "a" * 255, "a" * 300, "é" * 200, "a b", "a\0b", "a@b"),
    *("../../outside/x", "/etc/passwd", "..", ".", "a/b", "C:\\x", "SCHEDULE_TOPIC_XXXX"),
    *("broker", "DefaultCluster", "{}", "[]", "$ref", "true", "a" * 70_000),
)
EXPRESSIONS: Final = (
    *("*", "a || b", "||", "a = 1", "a BETWEEN 1 AND 2", "(" * 3000 + "a", "a ||" * 10_000),
    *("a=----------1 OR " * 900 + "b=1", "a = '" + "''" * 8000, "/*" * 8000, "- " * 8000),
    *("a CONTAINS 'aab' OR " * 800 + "b = 2", "a = 1.5 OR " * 1400 + "b = 2", "0" * 16_000),
    *("||".join(f"t{number}" for number in range(2500)), "a || " * 3200 + "b"),
    *("NOT " * 2000 + "a", "a = 1 OR " * 2000 + "b = 2", "a IN ('" + "x','" * 3000 + "')", "'"),
)
PROPERTY_STRINGS: Final = (
    "KEYS\x01" + "k " * 15_000 + "\x02",
    "KEYS\x01" + " ".join(map(str, range(6000))) + "\x02UNIQ_KEY\x01u\x02",
    "a\x01b\x02" * 8000,
    "a\x01" + "1" * 32_000 + "\x02",
    "KEYS\x01k\x02" * 3000,
)
COUNTS: Final = ("1000000", "2000000000", "2147483647", "65536", "4097", "2049")
"""Numbers of queues, messages, topics, or milliseconds, of which nothing may be built."""
TEXTS: Final = (*NUMBERS, *NAMES, *EXPRESSIONS)

REFERENCES: Final = ("$", "$.a", "..", "@", "$[0]", "$.x[99999]", "$[" + "9" * 5000 + "]", "x", "")


def text(rng: random.Random) -> str:
    """Return a text for an ext field or a string member."""
    return rng.choice(rng.choice((NUMBERS, NAMES, EXPRESSIONS)))


def member(rng: random.Random) -> Any:  # noqa: ANN401 - whatever JSON may have
    """Return a value for any member of a JSON document."""
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice((None, True, False, [], {}, [[]], {"": None}))
    if kind == 1:
        return rng.choice((0, -1, 2**31, -(2**31) - 1, 2**63, 10**30, 1e5, 1.5, 1e308))
    if kind == 2:
        return {"$ref": rng.choice(REFERENCES)}
    if kind == 3:
        deep: Any = 1
        for _ in range(rng.choice((10, 100, 300))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    if kind == 4:
        return {str(number): {"$ref": f"$[{number}]"} for number in range(200)}
    if kind == 5:
        return "x" * rng.choice((1000, 100_000, 1_000_000))
    if kind == 6:
        return list(range(rng.choice((10, 10_000, 100_000))))
    return text(rng)
