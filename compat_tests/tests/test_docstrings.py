"""``make lint`` finds docstrings that begin with a question."""

from pathlib import Path

import pytest

from tools import check_docstrings

ROOT = Path(__file__).parents[2]

QUESTION = "Whether it is."


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (f'"""{QUESTION}"""', 1),
        (f'"""{QUESTION}\n\nMore of it.\n"""', 1),
        (f'class A:\n    """{QUESTION}"""', 2),
        (f'def f():\n    """\n    {QUESTION}\n    """', 2),
        (f'async def f():\n    """{QUESTION}"""', 2),
        (f'x = 1\n"""{QUESTION}"""', 2),
    ],
)
def test_a_question_is_found(source: str, line: int) -> None:
    assert list(check_docstrings.questions(source)) == [(line, QUESTION)]


@pytest.mark.parametrize(
    "source",
    [
        '"""Return whether it is."""',
        '"""Whatever the server says."""',
        '"""A noun.\n\nWhy it is one: there is no other.\n"""',
        f'x = "{QUESTION}"',
        f"# {QUESTION}",
    ],
)
def test_a_statement_passes(source: str) -> None:
    assert list(check_docstrings.questions(source)) == []


@pytest.mark.parametrize(
    "folder",
    ["wire/lanemq", "sdk/tests", "sdk/tools", "testkit/lanemq", "compat_tests/tests", "examples"],
)
def test_tests_and_tools_are_read_beside_the_product(folder: str) -> None:
    assert folder in check_docstrings.FOLDERS
    assert next((ROOT / folder).rglob("*.py"), None) is not None


@pytest.mark.slow
def test_all_docstrings_are_statements(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        check_docstrings.main()
    assert capsys.readouterr().out == ""
    assert stopped.value.code == 0
