"""``make lint`` finds silencers of linters and type checkers that do not say why."""

import pytest

from tools import check_silencers

IGNORE, NOQA = "# type: " + "ignore", "# no" + "qa"


@pytest.mark.parametrize(
    "line",
    [
        f"a = b  {IGNORE}[misc] # it has no types",
        f"a = b  {IGNORE}[misc] it has no types",
        f"a = b  {NOQA}: ANN401 - JSON",
        f"a = b  {NOQA}: ANN401, E501 - JSON",
        f"# Nobody tells.\na = b  {NOQA}: ASYNC110",
        "a = b  # a comment",
    ],
)
def test_a_silencer_with_a_reason_passes(line: str) -> None:
    assert list(check_silencers.silencers_without_reason(line)) == []


@pytest.mark.parametrize(
    "line",
    [
        f"a = b  {IGNORE}[misc]",
        f"a = b  {IGNORE}[misc, arg-type]",
        f"a = b  {IGNORE}",
        f"a = b  {NOQA}",
        f"a = b  {NOQA}: ANN401",
        f"a = b  {NOQA}: ANN401, E501",
        f"a = b  {NOQA}: ANN401 -",
    ],
)
def test_a_silencer_without_a_reason_is_found(line: str) -> None:
    assert list(check_silencers.silencers_without_reason(f"x = 1\n{line}")) == [2]


def test_the_product_says_why_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        check_silencers.main()
    assert capsys.readouterr().out == ""
    assert stopped.value.code == 0
