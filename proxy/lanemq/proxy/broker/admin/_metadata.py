"""Writing the JSON files of tables that are kept in RocksDB (355).

Source: RocketMQ 5.3.3, AdminBrokerProcessor.exportRocksDBConfigToJson.
"""

import logging

import trio

from lanemq.storage import disk_problem
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ExportRocksdbConfigToJson

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from .._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.admin")

CONFIG_TYPES = ("topics", "subscriptionGroups", "consumerOffsets")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register EXPORT_ROCKSDB_CONFIG_TO_JSON (355)."""
    one_at_a_time = trio.Lock()

    async def export(header: ExportRocksdbConfigToJson, frame: Frame, session: Session) -> Frame:
        """Write the files, keeping older ones as ``.bak``; a broker with files writes nothing."""
        names = _config_types(header.config_type)
        async with one_at_a_time:
            try:
                await broker.store.tables.export(names)
            except OSError as error:
                LOGGER.error("the tables cannot be exported: %s", error)
                remark = f"the tables cannot be exported: {disk_problem(error)}"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
        LOGGER.info("%s were exported to JSON for %s", ", ".join(names), session.peer)
        return frame.reply(remark="export done.")

    handlers.add(
        RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, typed(ExportRocksdbConfigToJson, export)
    )


def _config_types(text: str) -> list[str]:
    """Parse the names in ``topics;consumerOffsets;``, in any case. Raises ``Refused``."""
    by_lower = {name.lower(): name for name in CONFIG_TYPES}
    names = []
    for part in text.split(";"):
        if not part.strip():
            continue
        name = by_lower.get(part.strip().lower())
        if name is None:
            remark = f"Unknown config type: {part}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        names.append(name)
    return names
