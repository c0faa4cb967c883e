"""What the package exports is what it says it exports."""

import types

import lanemq.wire


def test_all_names_every_public_name_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(lanemq.wire).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public | {"fastjson"} == set(lanemq.wire.__all__)
    assert len(lanemq.wire.__all__) == len(set(lanemq.wire.__all__))
