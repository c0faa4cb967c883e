"""The public names are sorted, all there, and are what they say."""

from types import ModuleType

import lanemq.storage


def test_all_names_exist_and_are_sorted_and_nothing_else_is_public() -> None:
    names = lanemq.storage.__all__
    constants_first = sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert names == constants_first
    public = {name for name in vars(lanemq.storage) if not name.startswith("_")}
    assert set(names) <= public
    # Modules are there as soon as a test imports one.
    others = [getattr(lanemq.storage, name) for name in public - set(names)]
    assert all(isinstance(other, ModuleType) for other in others)
    assert all(getattr(lanemq.storage, name).__doc__ for name in names)
