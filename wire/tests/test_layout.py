"""Fast packers say the same as the declarations they come from."""

import struct

import construct as cs
import pytest

from lanemq.wire import fixed_prefix, fixed_struct
from lanemq.wire.message import BATCH_ENTRY, RECORD_LAYOUTS


def test_a_fixed_declaration_gives_its_packer() -> None:
    layout = fixed_struct(
        cs.Struct("a" / cs.Int64sb, "b" / cs.Int32sb, "c" / cs.Bytes(3), "d" / cs.Int8ub)
    )
    assert layout.names == ("a", "b", "c", "d")
    assert layout.struct.format == ">ql3sB"
    assert layout.size_bytes == 16


def test_a_nested_declaration_is_flattened() -> None:
    inner = cs.Struct("x" / cs.Int16ub, "y" / cs.Float64b)
    layout = fixed_struct(cs.Struct("a" / cs.Int32ub, "point" / inner))
    assert layout.names == ("a", "x", "y")
    assert layout.struct.format == ">LHd"


def test_a_prefix_ends_before_the_first_field_without_a_size() -> None:
    layout = fixed_prefix(
        cs.Struct("n" / cs.Int32sb, "data" / cs.Bytes(cs.this.n), "z" / cs.Int8ub)
    )
    assert layout.names == ("n",)


def test_a_field_without_a_size_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="field data has no fixed size"):
        fixed_struct(cs.Struct("n" / cs.Int32sb, "data" / cs.Bytes(cs.this.n)))


def test_a_little_endian_field_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'n' is not big-endian"):
        fixed_struct(cs.Struct("n" / cs.Int32sl))


def test_the_heads_of_records_have_the_sizes_of_the_reference() -> None:
    sizes = {0: 88, 0x10: 100, 0x20: 100, 0x30: 112}
    for (_, hosts), layout in RECORD_LAYOUTS.items():
        assert fixed_prefix(layout).size_bytes == sizes[hosts]


def test_packers_and_declarations_agree() -> None:
    layout = fixed_prefix(BATCH_ENTRY)
    values = (22 + 3, 0, 0, 7, 3)
    data = layout.struct.pack(*values) + b"abc" + struct.pack(">h", 0)
    parsed = BATCH_ENTRY.parse(data)
    assert tuple(parsed[name] for name in layout.names) == values
