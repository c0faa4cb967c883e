"""A broker's words about its disk to those who ask for logical queues: no path of the machine."""

import errno
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from lanemq.proxy.broker.logical.migration._indices import LogicalIndices
from lanemq.proxy.broker.logical.state._state import LogicalState
from lanemq.proxy.broker.logical.state._stored_mappings import StoredMappings
from lanemq.storage import TopicTable
from lanemq.wire import Refused
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import ClaimLogicalIndices

PATH = "/srv/broker/config/topics.json"


class FullTable:
    """A table of topics on a full disk."""

    def member(self, name: str) -> object:
        return None

    def get(self, name: str) -> object:
        return TopicConfig(name)

    async def put_member(self, *what: Any) -> None:  # noqa: ANN401 - whatever is written
        raise OSError(errno.ENOSPC, "No space left on device", PATH)


class NoQueues:
    """The logical queues of a broker that has none."""

    def get(self, topic: str) -> None:
        return None


def mappings() -> Awaitable[object]:
    return StoredMappings(cast(TopicTable, FullTable())).write({}, None)


def brokers() -> Awaitable[object]:
    return StoredMappings(cast(TopicTable, FullTable())).write_brokers({"t": 2})


def claims() -> Awaitable[object]:
    table, logical = cast(TopicTable, FullTable()), cast(LogicalState, NoQueues())
    asked = ClaimLogicalIndices("t", {0: "broker1"}, ("broker1",))
    return LogicalIndices(logical=logical, topics=table).claim(asked)


@pytest.mark.parametrize("write", [mappings, brokers, claims])
async def test_a_full_disk_is_named_without_its_path(
    write: Callable[[], Awaitable[object]],
) -> None:
    with pytest.raises(Refused) as refused:
        await write()
    assert refused.value.remark.endswith("cannot be written: No space left on device")
