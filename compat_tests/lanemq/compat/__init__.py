"""The compat harness: real clients, real servers, one set of scenarios, one matrix."""

from ._errors import (
    BuildFailed,
    CommandRefused,
    CompatError,
    DriverFailed,
    NotApplicable,
    PeersMissing,
    ServerFailed,
)
from .cells._cell import Cell
from .clients._driver import Driver, open_driver
from .clients._families import CLIENTS, open_client
from .clients._messages import Delivery, Outgoing, Pulled, Received, Sent
from .matrix._matrix import Selection, run_matrix
from .matrix._results import CellResult
from .peers._build import built, run_tool
from .peers._drivers import go_driver, java_driver, node_driver
from .peers._programs import (
    java_libraries,
    java_program,
    missing_tools,
    peers_available,
    peers_required,
)
from .servers._apache import (
    APACHE_VERSIONS,
    apache_broker,
    apache_name_server,
    apache_proxy,
    mqadmin,
)
from .servers._clusters import (
    Cluster,
    apache_cluster,
    lanemq_broker,
    lanemq_cluster,
    lanemq_name_server,
    running,
)
from .servers._control import Control
from .servers._daemon import Daemon
from .servers._logical import LogicalControl, logical_cluster
from .servers._named import SERVER_NAMES, run_server
from .servers._ports import free_port
from .servers._proxy import lanemq_proxy
from .servers._waiting import PATIENT_S
from .stores._log_walk import walk_log
from .stores._rows_walk import Row, Rows, walk_rows
from .stores._stages import recorded_store, stage_settings
from .stores._stand import StoreStand
from .stores._view import Committed, StoreView, view_store

__all__ = [
    "APACHE_VERSIONS",
    "CLIENTS",
    "PATIENT_S",
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
    "apache_proxy",
    "built",
    "free_port",
    "go_driver",
    "java_driver",
    "java_libraries",
    "java_program",
    "lanemq_broker",
    "lanemq_cluster",
    "lanemq_name_server",
    "lanemq_proxy",
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
    "run_tool",
    "running",
    "stage_settings",
    "view_store",
    "walk_log",
    "walk_rows",
]
