"""The errors of the sources; their texts are what a user of Spark sees first."""

from typing import final

from lanemq.wire import ShownError


class SourceError(ShownError):
    """A read or write cannot go on."""


@final
class OptionInvalid(SourceError):  # noqa: N818 - a state of the options
    """An option is unknown or its value is not one of those it takes."""


@final
class TooFewQueues(SourceError):  # noqa: N818 - a state of the topic
    """A topic has fewer queues than the messages that go to it had."""

    def __init__(self, target: str, queues: int, *, topic: str, last: int) -> None:
        super().__init__(
            f"{target} has {queues} queues, and {topic} has messages in queue {last}: their order"
            f" needs {last + 1}"
        )
        self.target = target
        self.needed = last + 1


@final
class StoreDamaged(SourceError):  # noqa: N818 - a state of the store
    """A store has damage, and ``mode=FAILFAST`` asks to stop there."""
