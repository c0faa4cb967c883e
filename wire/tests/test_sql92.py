"""The filter language: as the reference judges, and as a second, smaller reading of it says."""

import gc
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.message import encode_properties
from lanemq.wire.sql92 import EvaluationError, SqlInvalid, compile_sql

CASES = Path(__file__).parents[2] / "compat_tests" / "vectors" / "filters" / "sql92.jsonl"
ANSWERS = {True: "TRUE", False: "FALSE", None: "NULL"}


def test_recorded_judgements_of_the_reference_are_ours() -> None:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 1000
    for line in lines:
        case = json.loads(line)
        try:
            ours = ANSWERS[compile_sql(case["expression"]).evaluate(case["properties"])]
        except SqlInvalid:
            ours = "INVALID"
        except EvaluationError:
            ours = "ERROR"
        assert ours == case["answer"], case


# The model: a condition is drawn together with the truth it has, by truth tables and Python's
# own comparison. It knows nothing of tokens, nodes or Java.

PROPERTIES = {"one": "1", "two": "2", "half": "0.5", "word": "word", "quote": "it's"}
NUMBERS = {"one": 1.0, "two": 2.0, "half": 0.5}
TABLES: dict[str, Callable[[Any, Any], bool | None]] = {
    "AND": lambda a, b: False if a is False or b is False else None if None in (a, b) else True,
    "OR": lambda a, b: True if a is True or b is True else None if None in (a, b) else False,
}
OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
Drawn = tuple[str, bool | None]


@st.composite
def comparisons(draw: st.DrawFn) -> Drawn:
    name, symbol = draw(st.sampled_from(sorted(NUMBERS))), draw(st.sampled_from(sorted(OPERATORS)))
    bound = draw(st.sampled_from([0.25, 0.5, 1.5, 2.5, 1e3]))
    if draw(st.booleans()):
        return f"{name} {symbol} {bound}", OPERATORS[symbol](NUMBERS[name], bound)
    return f"missing {symbol} {bound}", None


@st.composite
def searches(draw: st.DrawFn) -> Drawn:
    name, wanted = draw(st.sampled_from(["word", "quote", "missing"])), draw(st.booleans())
    value, word = PROPERTIES.get(name), "" if wanted else " NOT"
    kind = draw(st.sampled_from(["IN", "NULL", "CONTAINS", "STARTSWITH", "ENDSWITH"]))
    if kind == "NULL":
        return f"{name} IS{word} NULL", (value is None) is wanted
    texts = draw(st.lists(st.sampled_from(["word", "it's", "x", "w", "s", "or"]), min_size=1))
    quoted = ["'" + text.replace("'", "''") + "'" for text in texts]
    if kind == "IN":
        found = None if value is None else (value in texts) is wanted
        return f"{name}{word} IN ({', '.join(quoted)})", found
    if value is None:
        return f"{name}{word} {kind} {quoted[0]}", False
    holds = {
        "CONTAINS": texts[0] in value,
        "STARTSWITH": value.startswith(texts[0]),
        "ENDSWITH": value.endswith(texts[0]),
    }
    return f"{name}{word} {kind} {quoted[0]}", holds[kind] is wanted


def joined(parts: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    def join(left: Drawn, word: str, right: Drawn) -> Drawn:
        return f"({left[0]}) {word} ({right[0]})", TABLES[word](left[1], right[1])

    def negate(part: Drawn) -> Drawn:
        return f"NOT ({part[0]})", None if part[1] is None else not part[1]

    return st.builds(join, parts, st.sampled_from(["AND", "OR"]), parts) | st.builds(negate, parts)


CONDITIONS = st.recursive(comparisons() | searches(), joined, max_leaves=12)


@given(CONDITIONS)
def test_a_condition_is_as_true_as_its_parts_make_it(drawn: Drawn) -> None:
    expression, truth = drawn
    selector = compile_sql(expression, strict=True)
    assert selector.evaluate(PROPERTIES) is truth
    assert selector.matches(PROPERTIES) is (truth is True)
    assert selector.matches_data(encode_properties(PROPERTIES)) is (truth is True)


@given(CONDITIONS)
def test_case_and_layout_of_keywords_do_not_matter(drawn: Drawn) -> None:
    expression, truth = drawn
    for word in ("AND", "OR", "NOT", "IN", "IS", "NULL", "CONTAINS"):
        expression = expression.replace(f" {word} ", f"\n/* {word} */ {word.lower()}\t")
    assert compile_sql(expression, strict=True).evaluate(PROPERTIES) is truth


@given(st.text(max_size=60), st.booleans())
def test_any_text_compiles_or_is_invalid(text: str, strict: bool) -> None:
    try:
        selector = compile_sql(text, strict=strict)
    except SqlInvalid:
        return
    assert selector.matches({}) in (True, False)


@given(
    st.sampled_from(["a = b", "a > b", "a > 5", "a = 5.5", "a = TRUE", "a > 3000000000"]),
    st.text(min_size=1, max_size=12),
    st.text(min_size=1, max_size=12),
)
def test_any_property_is_compared_or_cannot_be(expression: str, a: str, b: str) -> None:
    try:
        assert compile_sql(expression).evaluate({"a": a, "b": b}) in (True, False, None)
    except EvaluationError:
        assert not compile_sql(expression).matches({"a": a, "b": b})


@pytest.mark.parametrize(
    "expression", ["a > 5 garbage", "a = 007", "a > 5)", "a = 1 LIMIT 3", "a = 0L"]
)
def test_what_follows_is_ignored_unless_strict(expression: str) -> None:
    compile_sql(expression)
    with pytest.raises(SqlInvalid, match="expected AND, OR or the end"):
        compile_sql(expression, strict=True)


def test_a_comment_may_end_a_strict_expression() -> None:
    assert compile_sql("a = 1 -- one", strict=True).matches({"a": "1"})


@pytest.mark.parametrize(
    "expression",
    ["(" * 50 + "a" + ")" * 50, "-" * 5000 + "5 > a", "NOT " * 5000 + "a", "a" + "=a" * 5000],
)
def test_depth_has_a_limit_and_length_has_one(expression: str) -> None:
    with pytest.raises(SqlInvalid, match=r"nested|in a row"):
        compile_sql(expression)
    with pytest.raises(SqlInvalid, match="longer than"):
        compile_sql(expression * 2000)


def test_a_long_flat_condition_is_no_deep_one() -> None:
    expression = " OR ".join(f"a = '{n}'" for n in range(1000))
    selector = compile_sql(expression)
    assert selector.matches({"a": "999"})
    assert not selector.matches({"a": "1000"})


def test_the_deepest_condition_can_be_evaluated() -> None:
    expression = "a = b"
    for _ in range(40):
        expression = f"({expression} AND TRUE) = TRUE"
    assert compile_sql(expression).evaluate({"a": "1", "b": "1"}) is True


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a > 'x'", "only numbers and properties have an order"),
        ("a between 5 and 3", "the lower bound is above the upper one"),
        ("a = NULL", "use IS NULL"),
        ("5", "not a condition"),
        ("a > ", "found the end at character 5"),
        ("a ? 5", "'?' means nothing at character 3"),
        ("a NOT LIKE 'x'", "expected BETWEEN, IN"),
        ("5 IN ('5')", "only a property can be IN a list"),
        ("a = 9223372036854775808", "64 bits"),
        ("a = 0.0", "too small"),
    ],
)
def test_an_error_says_what_and_where(expression: str, reason: str) -> None:
    with pytest.raises(SqlInvalid) as caught:
        compile_sql(expression)
    assert reason in str(caught.value)


def test_a_compiled_expression_costs_the_garbage_collector_nothing() -> None:
    """Hundreds of thousands of nodes may wait with pulls; a full collection looks at each object
    that is tracked, in one turn."""
    kinds = "x = {0}", "NOT (y{0} > -1)", "a BETWEEN -1 AND {0}", "b IS NULL", "c CONTAINS 'a{0}'"
    conditions = [f"({kind.format(number)} AND TRUE)" for number in range(50) for kind in kinds]
    text = " OR ".join(conditions)
    compile_sql(text)
    gc.collect()
    before = len(gc.get_objects())
    selector = compile_sql(text)
    gc.collect()  # tuples of what is not tracked are not tracked from now on either
    assert len(gc.get_objects()) - before <= 5, selector


@pytest.mark.parametrize("number", ["1", "1.5", "3000000000"])
def test_a_text_of_more_characters_than_a_number_may_have_is_none(number: str) -> None:
    selector = compile_sql(f"a >= {number} or a < {number}")
    longest = "0" * (4096 - len(number)) + number
    assert selector.matches({"a": longest})
    with pytest.raises(EvaluationError, match=r"^'0+'?\.{3}.* is not a "):
        selector.evaluate({"a": "0" + longest})


def test_blanks_around_a_number_do_not_count() -> None:
    assert compile_sql("a < 1.5").matches({"a": " " * 30_000 + "1" + " " * 2_000})
