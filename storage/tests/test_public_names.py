"""The public names are sorted, all there, and are what they say."""

import lanemq.storage


def test_all_names_exist_and_are_sorted_and_nothing_else_is_public() -> None:
    names = lanemq.storage.__all__
    constants_first = sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert names == constants_first
    public = {name for name in vars(lanemq.storage) if not name.startswith("_")}
    assert set(names) <= public
    assert public - set(names) <= {"rocks", "testing"}  # imported by the tests themselves
    assert all(getattr(lanemq.storage, name).__doc__ for name in names)
