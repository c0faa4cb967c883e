"""Every setting that is accepted has a test of its effect, or is named in a warning.

``settings_effects.txt`` names a test for each setting, which fails while the setting is ignored.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any, Final

import pytest

from lanemq.proxy._settings import Settings, apache_key
from lanemq.proxy.broker.settings._config import BrokerConfig
from lanemq.proxy.broker.settings._store_settings import StoreSettings
from lanemq.proxy.gateway import GatewayConfig
from lanemq.proxy.nameserver._config import NameServerConfig
from lanemq.storage import FlushMode, KvEngine, StoreConfig, StoreType

ROOT: Final = Path(__file__).parents[2]
KINDS: Final[tuple[type[Settings], ...]] = (BrokerConfig, NameServerConfig, GatewayConfig)
NAMES: Final = {field.name for kind in KINDS for field in dataclasses.fields(kind)}
NEEDED: Final = {"upstream": "10.0.0.1:9876"}
"""Settings without which there is no configuration of that kind."""


def effects() -> dict[str, str]:
    """Return the name of the test of each setting."""
    found: dict[str, str] = {}
    file = test = ""
    for line in Path(__file__).with_name("settings_effects.txt").read_text().splitlines():
        text = line.strip()
        depth = (len(line) - len(text)) // 4
        if depth == 0:
            file = text
        elif depth == 1:
            test = text
        else:
            assert text not in found, f"{text} is named twice"
            found[text] = f"{file}::{test}"
    return found


EFFECTS: Final = effects()


def test_every_setting_has_a_test_of_its_effect() -> None:
    """A new setting is named in settings_effects.txt below a test that fails without it."""
    assert set(EFFECTS) == NAMES


@pytest.mark.parametrize("test", sorted(set(EFFECTS.values())))
def test_the_tests_of_effects_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    source = (ROOT / file).read_text()
    for part in name.split("::"):
        assert re.search(rf"\b(def|class) {part}\b", source), test


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (kind, key)
        for kind in KINDS
        for key in sorted(
            kind.other_apache_keys() - {apache_key(one) for one in dataclasses.fields(kind)}
        )
    ],
)
def test_a_key_that_has_no_effect_is_named_in_a_warning(
    kind: type[Settings], key: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind.from_properties({**(NEEDED if kind is GatewayConfig else {}), key: "1"})
    assert f"lanemq does not use {key}" in caplog.text


# Settings of the store


OTHERS: Final[dict[type, Any]] = {bool: True, int: 77, str: "5s", Path: Path("x")}


def other_value(field: "dataclasses.Field[Any]") -> object:
    """Return a value of a setting that is not its default."""
    special: dict[str, object] = {
        "store_type": StoreType.ROCKSDB,
        "kv_engine": KvEngine.MEMORY,
        "flush_disk_type": FlushMode.SYNC,
        "config_manager_version": "v1",
        "delete_when": "05",
        "store_path_commit_log": Path("x"),
        "rocksdb_cq_double_write_enable": True,
        "rocksdb_cq_write_enable": True,
        "kv_memory_max_bytes": 1 << 21,
        "mapped_file_size_commit_log": 1 << 21,
        "mapped_file_size_timer_log": 1 << 21,
        "store_path_root_dir": Path("x"),
    }
    if field.name in special:
        return special[field.name]
    if isinstance(field.default, bool):
        return not field.default
    return OTHERS[type(field.default)]


def members_of(name: str) -> set[str]:
    """Return the settings of a store that a setting of the broker changes."""
    field = StoreSettings.__dataclass_fields__[name]
    around: dict[str, Any] = {}
    if name in ("enable_lmq", "enable_multi_dispatch"):
        around = {"enable_lmq": True, "enable_multi_dispatch": True} | {name: False}
        value: object = True
    else:
        value = other_value(field)
    one, two = (BrokerConfig(**{**around, **more}) for more in ({}, {name: value}))
    return {
        member.name
        for member in dataclasses.fields(StoreConfig)
        if getattr(one.store_config(), member.name) != getattr(two.store_config(), member.name)
    }


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(StoreSettings)])
def test_a_setting_of_the_store_reaches_it(name: str) -> None:
    assert len(members_of(name)) == 1
