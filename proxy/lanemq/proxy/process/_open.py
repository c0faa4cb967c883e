"""A running broker at sockets of the operating system.

Source: RocketMQ 4.9.8, BrokerStartup.
"""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import final

from lanemq.storage import Files, system_clock_ms
from lanemq.wire import HostAddress

from ..broker import Broker, BrokerConfig
from ..net.limits._budget import Budget
from ..net.transport._listen import listen_with_vip, offering, warn_of_strangers
from ..tls import ProcessTls
from ._run import LogicalPorts, run_broker

LOGICAL_PORTS = (
    "It is one of the logical listener's: logicalListenPort in the broker's file gives it others"
)


@final
@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that is listening and registered."""

    name: str
    address: HostAddress
    """The address for clients."""
    port: int
    """The main port."""
    vip_port: int
    """The port two below, where clients of 4.0 to 4.4 send."""
    broker: Broker
    logical_address: HostAddress | None = None
    """Address at which clients that do not know logical queues find them; None without such a
    port."""

    @property
    def logical_text(self) -> str | None:
        """The ``logical_address`` as text."""
        return None if self.logical_address is None else str(self.logical_address)


@asynccontextmanager
async def open_broker(
    config: BrokerConfig,
    *,
    files: Files | None = None,
    clock_ms: Callable[[], int] = system_clock_ms,
    budget: Budget | None = None,
    is_alone: Callable[[], bool] | None = None,
) -> AsyncIterator[RunningBroker]:
    """Run a broker for the length of the block.

    At its end the broker unregisters, lets answers leave, closes its ports and flushes its
    store. ``files`` is another disk than the operating system's, ``clock_ms`` another time of
    day, in milliseconds since 1970, and ``budget`` what the whole process keeps for its peers,
    where the broker is not alone in it. ``is_alone`` says whether its name servers have never
    known another broker: then it may make namespaces of keys unasked; where it is None, the
    broker asks them. Raises
    ``AddressUnavailable``, ``ConfigError`` and what ``open_store`` raises.
    """
    tls = ProcessTls(config, name=f"broker {config.broker_name}")
    with ExitStack() as sockets:
        opened_ports: list[socket.socket] = []

        def listen_at(port: int) -> tuple[list[socket.socket], HostAddress]:
            opened = listen_with_vip(config.bind_address, port)
            for one in opened:
                sockets.enter_context(one)
            opened_ports.extend(opened)
            return list(opened), HostAddress(config.advertised_host, opened[0].getsockname()[1])

        listeners, address = listen_at(config.listen_port)
        logical: LogicalPorts | None = None
        if config.logical_port is not None:
            with offering(LOGICAL_PORTS) if config.logical_listen_port else nullcontext():
                logical = LogicalPorts(
                    *listen_at(config.logical_port),
                    [LogicalPorts(*listen_at(port)) for port in config.numbered_ports],
                )
        name, has_accounts = f"broker {config.broker_name}", config.checks_requests
        warn_of_strangers(name, opened_ports, tls.server, has_accounts=has_accounts)
        tls.say()
        async with run_broker(
            config,
            address=address,
            listeners=listeners,
            logical=logical,
            files=files,
            clock_ms=clock_ms,
            budget=budget,
            is_alone=is_alone,
            tls=tls,
        ) as parts:
            yield RunningBroker(
                config.broker_name,
                address,
                address.port,
                listeners[1].getsockname()[1],
                parts.broker,
                None if logical is None else logical.address,
            )
