"""``make lint`` finds words of our own making that the field has a term for."""

import ast

import pytest

from tools import check_words


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class Crew: ...", ["Crew"]),
        ("class _Lanes: ...", ["_Lanes"]),
        ("def bury(): ...", ["bury"]),
        ("async def _strike(): ...", ["_strike"]),
        ("pool.let_go_of(queue)", ["let_go_of"]),
        ("def work(Taker): ...", ["Taker"]),
        ("lane = place = 1\nclass ProgressPlace: ...\nclass WorkerPool: ...", []),
    ],
)
def test_names_of_our_own_making_are_found(source: str, found: list[str]) -> None:
    assert [name for _, name, _ in check_words.coined_names("_pool", ast.parse(source))] == found


@pytest.mark.parametrize(("stem", "line"), [("_crew", 1), ("errands", 1), ("_lane_numbers", None)])
def test_a_module_of_such_a_name_is_found(stem: str, line: int | None) -> None:
    found = list(check_words.coined_names(stem, ast.parse("a = 1")))
    assert [number for number, *_ in found] == ([] if line is None else [line])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\nThe queue is let go of.", [(2, "release, give up")]),
        ("# The queue is let go\n# of here.", [(1, "release, give up")]),
        ("Its crews work.", [(1, "worker pool")]),
        ("The caretaker lets it go, of course.", []),
        ("It is not\n# known any more.", [(1, "no longer")]),
        ("It cannot be read any more", [(1, "no longer")]),
        ("It is not known. Nothing waits any more", []),
    ],
)
def test_phrases_of_our_own_making_are_found(text: str, found: list[tuple[int, str]]) -> None:
    assert [(line, instead) for line, _, instead in check_words.coined_phrases(text)] == found


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("proxy/x.py", "class Segment: ...", ["Segment"]),
        ("proxy/x.py", "Verdict = int\nProgress: type = int\nother = 1", ["Verdict", "Progress"]),
        ("proxy/x.py", "def f():\n    Segment = 1\nclass SegmentKey: ...", []),
        (check_words.OWNERS["Segment"], "class Segment: ...", []),
    ],
)
def test_a_word_with_an_owner_names_nothing_else(path: str, source: str, found: list[str]) -> None:
    assert [name for _, name, _ in check_words.second_owners(path, ast.parse(source))] == found


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("sdk/lanemq/sdk/x.py", 'raise E(f"run `lanemq admin {name}`")', ["`lanemq admin"]),
        ("sdk/lanemq/sdk/x.py", '"""\n``lanemq broker``: it."""', ["`lanemq broker"]),
        ("sdk/lanemq/sdk/x.py", 'a = ("use lanemq "\n"store repair")', ["lanemq store"]),
        ("sdk/lanemq/sdk/x.py", '"a lanemq broker stores it" # `lanemq kv`', []),
        ("sdk/lanemq/sdk/admin/cli/x.py", '"`lanemq admin topicList`"', []),
    ],
)
def test_a_text_below_the_command_line_names_no_command(
    path: str, source: str, found: list[str]
) -> None:
    named = check_words.advised_commands(path, ast.parse(source))
    assert [text for _, text, _ in named] == found


def test_owners_define_their_words() -> None:
    for name, path in check_words.OWNERS.items():
        text = (check_words.ROOT / path).read_text()
        assert f"class {name}" in text or f"\n{name} = " in text, path


@pytest.mark.slow
def test_code_and_pages_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        check_words.main()
    assert capsys.readouterr().out == ""
    assert stopped.value.code == 0
