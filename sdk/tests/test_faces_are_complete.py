"""A face has everything the core has, under the same names and with the same parameters."""

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lanemq.sdk
import lanemq.sdk.admin
import lanemq.sdk.aio
import lanemq.sdk.aio.admin
import lanemq.sdk.aio.kv
import lanemq.sdk.blocking
import lanemq.sdk.blocking.admin
import lanemq.sdk.blocking.kv
import lanemq.sdk.kv

GENERATOR = Path(__file__).parents[1] / "tools" / "generate_faces.py"
PAIRS = [
    (core, face)
    for core, faces in (
        (lanemq.sdk, (lanemq.sdk.blocking, lanemq.sdk.aio)),
        (lanemq.sdk.admin, (lanemq.sdk.blocking.admin, lanemq.sdk.aio.admin)),
        (lanemq.sdk.kv, (lanemq.sdk.blocking.kv, lanemq.sdk.aio.kv)),
    )
    for face in faces
]
BELOW = {"Dial", "RemotingClient", "dial_tcp", "open_remoting_client", "over_tls"}
"""Single frames and trio's streams: what clients are made of, and nothing for users of a face."""
SEAMS = {"dial", "clock_ms"}
"""Parameters for tests: they take what runs on trio."""
LISTENERS = {
    "ConcurrentListener",
    "KeyOrderedListener",
    "OrderlyListener",
    "StagedConcurrentListener",
}
ITERATION = {"__aiter__": "__iter__", "__anext__": "__next__"}


def is_blocking(face: ModuleType) -> bool:
    return ".blocking" in face.__name__


def own_names(core: ModuleType, face: ModuleType) -> set[str]:
    """Names for which the face has something else than the core."""
    return {n for n in set(core.__all__) - BELOW if getattr(core, n) is not getattr(face, n)}


def members(kind: type) -> dict[str, Any]:
    """The members that users may call or read."""
    return {
        name: value
        for name, value in inspect.getmembers_static(kind)
        if (not name.startswith("_") or name in ITERATION)
        and (inspect.isfunction(value) or isinstance(value, property))
    }


def attributes(kind: type) -> set[str]:
    """The public attributes that ``__init__`` sets."""
    init = vars(kind).get("__init__")
    source = inspect.getsource(init) if inspect.isfunction(init) else ""
    return set(re.findall(r"self\.([a-z]\w*)\b[^=\n(]* = ", source))


def parameters(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.name not in SEAMS]


@pytest.mark.parametrize(("core", "face"), PAIRS)
def test_the_names_are_the_same(core: ModuleType, face: ModuleType) -> None:
    opening = {"Opening"} if core is lanemq.sdk else set()
    assert set(face.__all__) == set(core.__all__) - BELOW | opening
    assert len(face.__all__) == len(set(face.__all__))


@pytest.mark.parametrize(("core", "face"), PAIRS)
def test_only_what_acts_differs(core: ModuleType, face: ModuleType) -> None:
    for name in own_names(core, face):
        value = getattr(core, name)
        acts = inspect.iscoroutinefunction(value) or name.startswith("open_")
        acts = acts or any(map(inspect.iscoroutinefunction, members(value).values()))
        acts = acts or name in {"Lock", "PushConsumer", "StagedSender"}
        assert acts or (is_blocking(face) and name in LISTENERS | {"StageOffsetStore"}), name


@pytest.mark.parametrize(("core", "face"), PAIRS)
def test_every_method_has_its_counterpart(core: ModuleType, face: ModuleType) -> None:
    compared = 0
    for name in own_names(core, face) - LISTENERS - {"StageOffsetStore"}:
        theirs = getattr(core, name)
        if not inspect.isclass(theirs):
            continue
        ours = members(getattr(face, name))
        for method, value in members(theirs).items():
            own = ITERATION.get(method, method) if is_blocking(face) else method
            mine = inspect.getattr_static(getattr(face, name), own, None)
            assert mine is not None, f"{face.__name__}.{name}.{own}"
            assert type(mine) is type(value), f"{face.__name__}.{name}.{own}"
            assert inspect.getdoc(mine) or not inspect.getdoc(value)
            if not isinstance(value, property):
                wait = inspect.iscoroutinefunction(value) and not is_blocking(face)
                assert inspect.iscoroutinefunction(mine) == wait, f"{name}.{own}"
                assert parameters(mine) == parameters(value), f"{name}.{own}"
            compared += 1
        assert attributes(theirs) <= attributes(getattr(face, name)) | set(ours)
        more = set(ours) - set(members(theirs)) - set(ITERATION.values()) - {"close"}
        assert not more, f"{name} has more than the core's"
    assert compared > 20


@pytest.mark.parametrize(("core", "face"), PAIRS)
def test_what_opens_takes_the_same(core: ModuleType, face: ModuleType) -> None:
    openers = [name for name in face.__all__ if name.startswith("open_")]
    assert openers
    kind = AbstractContextManager if is_blocking(face) else AbstractAsyncContextManager
    for name in openers:
        mine = getattr(face, name)
        assert parameters(mine) == parameters(getattr(core, name)), name
        assert issubclass(inspect.signature(mine).return_annotation.__origin__, kind), name
        client = inspect.signature(mine).return_annotation.__args__[0]
        assert inspect.iscoroutinefunction(client.close) != is_blocking(face)


@pytest.mark.parametrize(("core", "face"), PAIRS)
def test_functions_take_the_same(core: ModuleType, face: ModuleType) -> None:
    for name in own_names(core, face):
        value = getattr(core, name)
        if inspect.iscoroutinefunction(value):
            mine = getattr(face, name)
            assert parameters(mine) == parameters(value), name
            assert inspect.iscoroutinefunction(mine) != is_blocking(face), name


@pytest.mark.parametrize("name", sorted(LISTENERS))
def test_listeners_have_the_same_fields(name: str) -> None:
    theirs = dataclasses.fields(getattr(lanemq.sdk, name))
    mine = dataclasses.fields(getattr(lanemq.sdk.blocking, name))
    assert [(f.name, f.default) for f in mine] == [(f.name, f.default) for f in theirs]
    assert getattr(lanemq.sdk.aio, name) is getattr(lanemq.sdk, name)


@pytest.mark.slow
def test_what_is_generated_is_as_it_would_be_generated() -> None:
    """They are up to date; if not, run: python sdk/tools/generate_faces.py."""
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
