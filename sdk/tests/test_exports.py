"""The public surface: complete, sorted, and documented."""

import dataclasses
import inspect

import pytest

import lanemq.sdk
from lanemq.sdk import (
    ClientOptions,
    FlowLimits,
    LitePullOptions,
    ProducerOptions,
    PushOptions,
    RemotingOptions,
)

OPTIONS = [
    ClientOptions,
    FlowLimits,
    LitePullOptions,
    ProducerOptions,
    PushOptions,
    RemotingOptions,
]


def test_all_names_what_is_public_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(lanemq.sdk).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(lanemq.sdk.__all__) == public
    assert len(lanemq.sdk.__all__) == len(set(lanemq.sdk.__all__))


@pytest.mark.parametrize("name", lanemq.sdk.__all__)
def test_everything_public_has_a_docstring(name: str) -> None:
    value = getattr(lanemq.sdk, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value)


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_frozen_keyword_only_and_have_defaults(options: type) -> None:
    made = options()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(options)[0].name, 1)
    for field in dataclasses.fields(options):
        assert field.kw_only


@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_is_explained(options: type) -> None:
    explained = "".join(
        inspect.getsource(part) for part in options.__mro__ if dataclasses.is_dataclass(part)
    )
    for field in dataclasses.fields(options):
        at = explained.index(f"    {field.name}: ")
        assert explained[at:].split("\n", 1)[1].lstrip().startswith('"""'), field.name


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (ProducerOptions, "send_timeout_s", 0),
        (ProducerOptions, "retries", -1),
        (ProducerOptions, "compress_level", 10),
        (ClientOptions, "heartbeat_interval_s", 0),
        (ClientOptions, "instance", "a/b"),
        (PushOptions, "pull_batch", 0),
        (PushOptions, "pull_timeout_s", 15),
        (PushOptions, "max_reconsume_times", -1),
        (LitePullOptions, "poll_messages_max", 0),
        (RemotingOptions, "connect_timeout_s", 0),
        (RemotingOptions, "frame_bytes_max", 10),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: type, field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        options(**{field: value})
