"""Expressions and properties to judge: the documented, the odd, and random ones."""

import base64
import random
from collections.abc import Iterator, Mapping

Case = tuple[str, dict[str, str]]

# What the reference's own tests show, and the corners of its grammar.
WRITTEN = (
    "a between 2 and 10",
    "a not between 2 and 10",
    "a is null",
    "a is not null",
    "a is not null and a='hello'",
    "a=TRUE OR b=FALSE",
    "a is null OR a='hello'",
    "TAGS is not null and TAGS='''''tag'''''",
    "a between b and c",
    "b is not null and b between 0 and 100",
    "a=b",
    "a<>b",
    "a > 3.1E10",
    "a > b",
    "a > now",
    "a=3 and b<>4 And c>5 AND d<=4",
    "a in ('3', '4', '5')",
    "(a not in ('6', '4', '5')) or (b in ('3', '4', '5'))",
    "a and between 2 and 10",
    " a between 10 and 0",
    "a > 100000000000000000000000",
    "a > 3000000000",
    "a < -3000000000",
    "a > -2147483648",
    "a = 9223372036854775807",
    "a = 9223372036854775808",
    "a > 0.0",
    "a > -.5e1",
    "a = 5L",
    "a = 0L",
    "a = 007",
    "a = 5.",
    "a > 1e309",
    "a > 1e-400",
    "NOT a",
    "NOT a = 5",
    "NOT a > 5",
    "NOT (a > 5)",
    "NOT a IS NULL",
    "NOT NOT a = TRUE",
    "TRUE",
    "FALSE OR NULL",
    "NULL",
    "TRUE = 5",
    "5 = TRUE",
    "TRUE = a",
    "a = TRUE",
    "b = 1 OR TRUE = a",
    "TRUE = a OR b = 1",
    "a = NULL",
    "NULL = a",
    "NULL IS NULL",
    "(a > 5) IS NULL",
    "(a > 5) = (b > 5)",
    "a = b = TRUE",
    "a = b IS NULL",
    "'5' = 5",
    "5 = '5'",
    "5 = 5.0",
    "5 > 3",
    "5 > '3'",
    "'x'",
    "-a",
    "-a > 5",
    "- -5 < a",
    "--5 < a",
    "a > --5",
    "a > 5 -- five",
    "a > -- five\n5",
    "a /* what */ > /***/ 5",
    "a /* what > 5",
    "+a = +5",
    "a > + 'x'",
    "a > -'x'",
    "a > TRUE",
    "a between 'x' and 5",
    "a between TRUE and 5",
    "a between NULL and 5",
    "a between -5 and -10",
    "a between 5 and 5",
    "5 between a and b",
    "a not between 10 and 2",
    "a in ('3') in ('4')",
    "a in ()",
    "a in (3)",
    "'a' in ('a')",
    "(a) in ('3')",
    "a not like 'x'",
    "a like 'x'",
    "a is true",
    "a contains 'ell'",
    "a contains ''",
    "a not contains 'ell'",
    "a not contains ''",
    "a startswith 'he'",
    "a not startswith 'he'",
    "a endswith 'lo'",
    "a not endswith 'lo'",
    "a contains 'x' contains 'y'",
    "a not contains 'x' = TRUE",
    "contains = 5",
    "5 contains '5'",
    "(a = b) contains 'T'",
    "a > 5 garbage",
    "a > 5 #",
    "a > 5 garbage #",
    "a > 5)",
    "(a > 5",
    "a >",
    "> 5",
    "",
    "   ",
    "a == 5",
    "a != 5",
    "a <> 5",
    "a > 5 > 3",
    "a = 'it''s'",
    "a = 'it''",
    "a = '",
    "_x$1 = 'v'",
    "$ = 'v'",
    "1a = 5",
    "A = 'upper'",
    "aNd = 5",
    "a > 5 AND (b < 3 OR c = 'x') AND NOT (d IS NULL)",
    "a IN ('1','2','3','4','5','6','7')",
    "a.b = 5",
    '"a" = 5',
    "é = 5",
    "a = 'é'",
    "a\t=\n5\r\fAND\r\nb=6",
)

TEXTS = (
    "hello", "abc", "5", "3", "4", "2", "10", "11", "0", "-5", "+5", " 5", "5 ", "5.0", "3.14",
    "3.1415", "3000000000", "-3000000000", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1e3", "1E400", "-1e400", ".5", "5.", "5f", "5d", "5L", "0x10",
    "0x1p4", "-0x1.8P1f", "NaN", "-NaN", "Infinity", "-Infinity", "+Infinity", "NaNf", "true",
    "TRUE", "True", "false", "yes", "", "0.0", "-0.0", "-0", "٣", "\uff15", "1_000", "é", "it's",
    "''tag''", "v", "upper", "\u00a05", "1e", "e5", ".", "+", "--5", "1.5e+2", "1.5e-2D",
)  # fmt: skip
NAMES = ("a", "b", "c", "d", "TAGS", "A", "_x$1")
NUMBERS = (
    "0", "3", "5", "10", "5L", "2147483647", "2147483648", "9223372036854775807", "5.0", "3.14",
    "1e3", ".5", "5.", "1.5E2", "9223372036854775808", "0.0",
)  # fmt: skip
STRINGS = ("'hello'", "'5'", "'abc'", "''", "'it''s'", "'true'", "'3'", "'e'", "'é'")
SOUP = (
    *NAMES, *NUMBERS, *STRINGS, "(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "+", "-", "AND",
    "or", "NOT", "between", "IN", "IS", "NULL", "TRUE", "false", "CONTAINS", "startswith",
    "ENDSWITH", "--", "/* x */", "#", "'", "\n", "LIKE",
)  # fmt: skip


def random_expression(rng: random.Random, depth: int = 3) -> str:
    """Return a text that mostly is an expression."""
    if rng.random() < 0.08:
        return " ".join(rng.choices(SOUP, k=rng.randint(1, 8)))
    kind = rng.randrange(10) if depth else rng.randrange(6)
    operand = _operand(rng, depth)
    match kind:
        case 0 | 1 | 2:
            return (
                f"{operand} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {_operand(rng, depth)}"
            )
        case 3:
            negated = rng.choice(("", "NOT "))
            return f"{operand} {negated}BETWEEN {_operand(rng, 0)} AND {_operand(rng, 0)}"
        case 4:
            texts = ", ".join(rng.choices(STRINGS, k=rng.randint(1, 6)))
            return f"{operand} {rng.choice(('', 'NOT '))}IN ({texts})"
        case 5:
            if rng.random() < 0.5:
                return f"{operand} IS {rng.choice(('', 'NOT '))}NULL"
            word = rng.choice(("CONTAINS", "STARTSWITH", "ENDSWITH"))
            return f"{operand} {rng.choice(('', 'NOT '))}{word} {rng.choice(STRINGS)}"
        case 6 | 7:
            joint = rng.choice((" AND ", " OR "))
            parts = [random_expression(rng, depth - 1) for _ in range(rng.randint(2, 3))]
            return joint.join(parts)
        case 8:
            return f"({random_expression(rng, depth - 1)})"
    return f"NOT {random_expression(rng, depth - 1)}"


def _operand(rng: random.Random, depth: int) -> str:
    chance = rng.random()
    if chance < 0.55:
        return rng.choice(NAMES)
    if chance < 0.75:
        return rng.choice(("", "", "-", "+")) + rng.choice(NUMBERS)
    if chance < 0.83:
        return rng.choice(STRINGS)
    if chance < 0.88:
        return rng.choice(("TRUE", "FALSE", "NULL"))
    if chance < 0.92:
        return f"-{rng.choice(NAMES)}"
    return f"({random_expression(rng, depth - 1)})" if depth else rng.choice(NAMES)


def random_properties(rng: random.Random) -> dict[str, str]:
    """Properties of a message, some of those that expressions name."""
    return {name: rng.choice(TEXTS) for name in NAMES if rng.random() < 0.7}


def cases(seed: int, count: int) -> Iterator[Case]:
    """Iterate over every written expression with a few messages, then ``count`` random ones."""
    rng = random.Random(seed)
    for expression in WRITTEN:
        yield expression, {}
        for _ in range(5):
            yield expression, random_properties(rng)
    for _ in range(count):
        yield random_expression(rng), random_properties(rng)


def oracle_line(expression: str, properties: Mapping[str, str]) -> str:
    """Return a case as the program Sql92.java reads it."""
    pairs = (f"{_pack(name)}={_pack(value)}" for name, value in properties.items())
    return " ".join((base64.b64encode(expression.encode()).decode(), *pairs))


def _pack(text: str) -> str:
    return base64.b64encode(text.encode()).decode().replace("=", ".")
