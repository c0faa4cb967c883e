"""The opening of producers of any kind."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from .._errors import WrongValue
from .._namespace import in_namespace
from .._options import ProducerOptions
from .._validate import check_group, check_send_topic
from ..net._client import Client, open_client
from ..net._discovery import NameServersLike
from ..net._link import Dial
from ._tracer import Tracer, open_tracer


class Closable(Protocol):
    """A producer, as far as it is opened and closed here."""

    def _close(self) -> None: ...


ProducerT = TypeVar("ProducerT", bound=Closable)


@asynccontextmanager
async def opened(
    make: Callable[[Client, str, ProducerOptions, Tracer | None], ProducerT],
    group: str,
    name_servers: NameServersLike,
    options: ProducerOptions,
    dial: Dial,
    clock_ms: Callable[[], int],
) -> AsyncIterator[ProducerT]:
    """Open a producer of any kind, without connecting to anything."""
    full_group = in_namespace(options.client.namespace, group)
    check_group(full_group)
    async with (
        open_client(
            name_servers,
            options.client,
            default_topic=options.default_topic,
            default_topic_queues=options.default_topic_queues,
            dial=dial,
            clock_ms=clock_ms,
        ) as client,
        open_tracer(client, group, "PRODUCE") as tracer,
    ):
        producer = make(client, full_group, options, tracer)
        try:
            yield producer
        finally:
            producer._close()


def full_names(topics: Iterable[str], options: ProducerOptions) -> tuple[str, ...]:
    """Return the topics' names as brokers know them. Raises ``InvalidName`` and ``WrongValue``."""
    if isinstance(topics, str):  # a sequence of texts, too: its letters
        raise WrongValue(f"topics must be a list of topics, as [{topics!r}], not a text")
    names = tuple(in_namespace(options.client.namespace, topic) for topic in topics)
    for name in names:
        check_send_topic(name)
    return names
