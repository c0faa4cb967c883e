"""The compat harness: real clients, real servers, one set of scenarios, one matrix."""

from ._apache import APACHE_VERSIONS, apache_broker, apache_name_server, mqadmin
from ._cell import Cell
from ._clients import CLIENTS, open_client
from ._control import Control
from ._daemon import Daemon
from ._driver import Driver, open_driver
from ._errors import (
    BuildFailed,
    CommandRefused,
    CompatError,
    DriverFailed,
    NotApplicable,
    PeersMissing,
    ServerFailed,
)
from ._log_walk import walk_log
from ._logical_servers import LogicalControl, logical_cluster
from ._matrix import Selection, run_matrix
from ._messages import Delivery, Outgoing, Pulled, Received, Sent
from ._named_servers import SERVER_NAMES, run_server
from ._peers import (
    go_driver,
    java_driver,
    java_libraries,
    java_program,
    missing_tools,
    node_driver,
    peers_available,
    peers_required,
)
from ._ports import free_port
from ._results import CellResult
from ._rows_walk import Row, Rows, walk_rows
from ._servers import (
    Cluster,
    apache_cluster,
    lanemq_broker,
    lanemq_cluster,
    lanemq_name_server,
    running,
)
from ._stages import recorded_store, stage_settings
from ._stand import StoreStand
from ._store_view import Committed, StoreView, view_store

__all__ = [
    "APACHE_VERSIONS",
    "CLIENTS",
    "SERVER_NAMES",
    "BuildFailed",
    "Cell",
    "CellResult",
    "Cluster",
    "CommandRefused",
    "Committed",
    "CompatError",
    "Control",
    "Daemon",
    "Delivery",
    "Driver",
    "DriverFailed",
    "LogicalControl",
    "NotApplicable",
    "Outgoing",
    "PeersMissing",
    "Pulled",
    "Received",
    "Row",
    "Rows",
    "Selection",
    "Sent",
    "ServerFailed",
    "StoreStand",
    "StoreView",
    "apache_broker",
    "apache_cluster",
    "apache_name_server",
    "free_port",
    "go_driver",
    "java_driver",
    "java_libraries",
    "java_program",
    "lanemq_broker",
    "lanemq_cluster",
    "lanemq_name_server",
    "logical_cluster",
    "missing_tools",
    "mqadmin",
    "node_driver",
    "open_client",
    "open_driver",
    "peers_available",
    "peers_required",
    "recorded_store",
    "run_matrix",
    "run_server",
    "running",
    "stage_settings",
    "view_store",
    "walk_log",
    "walk_rows",
]
