"""Long files go to the workers first, so that no worker is left alone with one at the end."""

from pathlib import Path

from lanemq.testkit.long_files import LONG_S, SHARED_OUT, longest_first, unit_of

ROOT = Path(__file__).parents[2]


def test_the_file_that_takes_longest_comes_first_with_its_tests_in_their_order() -> None:
    (long, _), *_ = sorted(LONG_S.items(), key=lambda item: -item[1])
    few, many = ["a.py::z", "a.py::b"], ["b.py::z", "b.py::y", "b.py::x"]
    assert longest_first([*few, *many, f"{long}::it"], str) == [f"{long}::it", *many, *few]


def test_the_files_that_are_said_to_take_long_are_there() -> None:
    assert [name for name in LONG_S if not (ROOT / name).is_file()] == []
    assert LONG_S.keys() >= SHARED_OUT


def test_tests_of_a_file_that_is_shared_out_go_to_workers_one_by_one() -> None:
    shared = min(SHARED_OUT)
    assert unit_of(f"{shared}::test[a::b]") == f"{shared}::test[a::b]"
    assert unit_of("wire/tests/test_a.py::test[1]") == "wire/tests/test_a.py"


def test_files_that_are_shared_out_make_nothing_for_all_of_their_tests() -> None:
    for file in SHARED_OUT:
        text = (ROOT / file).read_text()
        assert 'scope="' not in text
        assert "@cache" not in text
