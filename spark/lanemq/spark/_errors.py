"""The errors of the sources; their texts are what a user of Spark sees first."""

from typing import final

from lanemq.wire import ShownError


class SourceError(ShownError):
    """A read or write cannot go on."""


@final
class OptionInvalid(SourceError):  # noqa: N818 - a state of the options
    """An option is unknown or its value is not one of those it takes."""


@final
class StoreDamaged(SourceError):  # noqa: N818 - a state of the store
    """A store has damage, and ``mode=FAILFAST`` asks to stop there."""
