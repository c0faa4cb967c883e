"""``make lint`` finds modules and functions that are too long, and what it lets through."""

import pytest

from tools import check_sizes

LONG = "".join(f"    a{number} = {number}\n" for number in range(70))


def function(name: str, indent: str = "") -> str:
    return "".join(indent + line for line in f"def {name}():\n{LONG}".splitlines(keepends=True))


@pytest.mark.slow
def test_nothing_of_the_product_is_too_long_without_a_reason() -> None:
    allowed = check_sizes.parse_allowed(check_sizes.ALLOWED.read_text())
    assert list(check_sizes.problems(check_sizes.product_sizes(), allowed)) == []
    assert all(len(entry.reason) > 20 for entry in allowed.values())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("a = 1\n" * 310, {}),
        ("a = 1\n" * 311, {"x.py": 311}),
        (function("f"), {"x.py:f": 71}),
        ("async " + function("f"), {"x.py:f": 71}),
        ("class C:\n" + function("f", "    "), {"x.py:C.f": 71}),
        ("def f():\n" + function("g", "    "), {"x.py:f": 72, "x.py:f.g": 71}),
        ("if True:\n" + function("f", "    "), {"x.py:f": 71}),
    ],
)
def test_what_is_too_long_is_named_with_its_lines(source: str, found: dict[str, int]) -> None:
    assert dict(check_sizes.sizes_of("x.py", source)) == found


def test_the_list_only_gets_shorter() -> None:
    allowed = check_sizes.parse_allowed("# list\n\nx.py 320 one table, a line each\n")
    assert list(check_sizes.problems({"x.py": 320}, allowed)) == []
    (grown,) = check_sizes.problems({"x.py": 321}, allowed)
    assert "x.py has grown to 321 lines, 320 are allowed" in grown
    (gone,) = check_sizes.problems({}, allowed)
    assert "take it out of allowed_sizes.txt" in gone
    (new,) = check_sizes.problems({"x.py": 320, "y.py:f": 66}, allowed)
    assert "y.py:f has 66 lines: split it by its ideas" in new


def test_a_table_may_grow() -> None:
    allowed = check_sizes.parse_allowed("x.py * one table, a line each\n")
    assert list(check_sizes.problems({"x.py": 5000}, allowed)) == []
    assert len(list(check_sizes.problems({}, allowed))) == 1
