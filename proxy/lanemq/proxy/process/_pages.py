"""The HTTP pages of a broker's process."""

from collections.abc import Callable, Iterable, Iterator

from ..broker import Broker
from ..broker.status._families import BrokerFamilies
from ..broker.status._snapshot import StatusReader
from ..net.http._exposition import Family
from ..net.http._pages import Pages


def broker_pages(broker: Broker, others: Callable[[], Iterable[Family]] = lambda: ()) -> Pages:
    """Return the pages of a broker, with the metrics of ``others`` in the process."""
    families = BrokerFamilies(
        broker=broker.context, keys=broker.key_statuses, status=StatusReader.of(broker.context)
    )

    def both() -> Iterator[Family]:
        yield from families.all()
        yield from others()

    return Pages(both, lambda: broker.context.store.unwritable_reason)
