"""Single options, given by keyword beside or instead of an options object."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from .._errors import WrongUse
from .._options import ClientOptions, LitePullOptions, ProducerOptions, PushOptions
from ._setting_types import LitePullSettings, ProducerSettings, PushSettings

__all__ = ["LitePullSettings", "ProducerSettings", "PushSettings", "with_settings"]

OptionsT = TypeVar("OptionsT", ProducerOptions, PushOptions, LitePullOptions)


def with_settings(
    kind: type[OptionsT], given: OptionsT | None, settings: Mapping[str, Any]
) -> OptionsT:
    """Return the options ``given``, or the defaults, with single ones replaced at any depth.

    For example, ``connect_timeout_s`` is a field of ``options.client.remoting``.

    Raises ``WrongUse`` for a name that none of them has and for options of another ``kind``,
    ``ValueError`` for a bad value.
    """
    options = kind() if given is None else given
    if not isinstance(options, kind):
        raise WrongUse(
            f"options must be {kind.__name__}(…), not {type(options).__name__}; what clients of all"
            f" kinds share goes into {kind.__name__}(client=ClientOptions(…))"
        )
    if not settings:
        return options
    own, client, remoting = (_names(o) for o in (options, options.client, options.client.remoting))
    for name in settings:
        if name not in own | client | remoting:
            raise WrongUse(_unknown(name, type(options).__name__, own | client | remoting))
    ours = {name: settings[name] for name in own & settings.keys()}
    shared: ClientOptions = ours.get("client", options.client)
    in_client = {name: settings[name] for name in client & settings.keys()}
    in_remoting = {name: settings[name] for name in remoting & settings.keys()}
    if in_remoting:
        base = in_client.get("remoting", shared.remoting)
        in_client["remoting"] = dataclasses.replace(base, **in_remoting)
    if in_client:
        ours["client"] = dataclasses.replace(shared, **in_client)
    return dataclasses.replace(options, **ours)


def _names(options: Any) -> set[str]:  # noqa: ANN401 - any of the options classes
    return {field.name for field in dataclasses.fields(options)}


def _unknown(name: str, kind: str, known: set[str]) -> str:
    words = name.replace("_", "").lower()
    by_words = {candidate.replace("_", "").lower(): candidate for candidate in known}
    close = difflib.get_close_matches(words, by_words, n=1)
    hint = f"; did you mean {by_words[close[0]]!r}?" if close else ""
    return (
        f"there is no option {name!r}{hint}. Options are the fields of {kind}, ClientOptions and"
        " RemotingOptions"
    )
