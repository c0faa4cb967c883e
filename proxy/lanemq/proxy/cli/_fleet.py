"""A fleet of broker processes on one machine, kept running by the process that started them.

One loop uses one core. Logical queues hide from clients how many brokers there are, so that a
machine's cores are so many brokers of one cluster.
"""

import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
import trio

from lanemq.sdk import dial_tcp

from .._settings import ConfigError
from ..net.transport._listen import VIP_BELOW
from ..tls import ProcessTls
from ._fleet_topics import keep_logical
from ._run import NotStarted, Ready, flattened
from ._store_kinds import fleet_store

if TYPE_CHECKING:
    from ..broker import BrokerConfig

LOGGER = logging.getLogger("lanemq.proxy.fleet")

LANEMQ: Final = (sys.executable, "-m", "lanemq.proxy.cli")
READY_S: Final = 60.0
"""Seconds until a broker must be ready; it may have much to recover."""
PAUSE_S: Final = 1.0
"""Seconds between the end of a process and its next start."""
STOP_S: Final = 30.0
PORTS_APART: Final = 20
"""Distance of brokers' ports: each has its main port, those of its logical listener, and VIP
ports."""


class BrokerFailed(OSError):  # noqa: N818 - says what happened
    """A broker process was not ready in time, or ended before; it has said why itself, on
    stderr."""

    def __init__(self, name: str, status: int | None) -> None:
        how = f"not ready within {READY_S:.0f} s" if status is None else f"exit status {status}"
        super().__init__(f"broker {name} did not start ({how})")


class FleetFailed(NotStarted):
    """Brokers of a fleet did not start, so that none runs."""

    def __init__(self, group: BaseExceptionGroup[BrokerFailed]) -> None:
        texts = sorted(str(error) for error in flattened(group))
        super().__init__(f"{'; '.join(texts)}: the reason is above")


@final
class BrokerProcess:
    """A process of ``lanemq broker`` with some options, started again whenever it ends by
    itself."""

    def __init__(self, name: str, options: Sequence[str]) -> None:
        self.name = name
        self.facts: Mapping[str, Any] = {}
        """The facts it printed when it was last ready."""
        self._options = options
        self._process: trio.Process | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the process running until cancelled. Raises ``BrokerFailed`` if it never becomes
        ready."""
        try:
            await self._start()
            task_status.started()
            while True:
                assert self._process is not None
                status = await self._process.wait()
                LOGGER.error("broker %s ended (status %s); it is started again", self.name, status)
                await trio.sleep(PAUSE_S)
                try:
                    await self._start()
                except BrokerFailed as error:
                    LOGGER.error("%s; next try soon", error)
        finally:
            await self._stop()

    async def _start(self) -> None:
        self._process = process = await trio.lowlevel.open_process(
            [*LANEMQ, "broker", "--json", "--parent", str(os.getpid()), *self._options],
            stdout=subprocess.PIPE,
            # A signal from the terminal is for this process, which then ends the others.
            start_new_session=True,
        )
        assert process.stdout is not None
        line = b""
        with trio.move_on_after(READY_S):
            while not line.endswith(b"\n"):
                data = await process.stdout.receive_some()
                if not data:
                    raise BrokerFailed(self.name, await process.wait())
                line += data
        if not line.endswith(b"\n"):
            process.kill()
            raise BrokerFailed(self.name, None)
        self.facts = msgspec.json.decode(line)

    async def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        with trio.CancelScope(shield=True):
            process.terminate()
            with trio.move_on_after(STOP_S):
                await process.wait()
                return
            LOGGER.error("broker %s does not end; it is killed", self.name)
            process.kill()
            await process.wait()


@asynccontextmanager
async def run_fleet(brokers: Sequence[BrokerProcess]) -> AsyncIterator[None]:
    """Run all broker processes for the length of the block, which begins when all are ready.

    Raises ``FleetFailed``.
    """
    try:
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as starting:
                for broker in brokers:
                    starting.start_soon(nursery.start, broker.run)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failed, others = group.split(BrokerFailed)
        if failed is None or others is not None:
            raise
        raise FleetFailed(failed) from group


def _ports_apart(config: "BrokerConfig") -> int:
    """Return a distance of ports at which the highest of a broker is below the lowest of the
    next."""
    highest = max((*config.numbered_ports, config.logical_port or 0))
    needed = highest + VIP_BELOW + 1 - config.listen_port
    return PORTS_APART * max(1, -(-needed // PORTS_APART))


@asynccontextmanager
async def serve_fleet(
    config: "BrokerConfig",
    count: int,
    name_server: str,
    config_file: Path | None,
    log_level: str,
) -> AsyncIterator[Ready]:
    """Run ``count`` brokers with the settings of ``config``, each on ports and in a store of its
    own, and look after their topics. Raises ``ConfigError`` and ``FleetFailed``."""
    if config.checks_requests and config.inner_credentials is None:
        LOGGER.warning(
            "requests are checked, but innerClientAuthenticationCredentials names no account: "
            "brokers refuse each other, unless their addresses are in globalWhiteRemoteAddresses"
        )
    if config.logical_listen_port:
        raise ConfigError(
            f"logicalListenPort is {config.logical_listen_port}, which {count} brokers cannot "
            "share: leave it out, and each takes the one ten above its main port"
        )
    if config.store_path_commit_log is not None:
        raise ConfigError(
            f"storePathCommitLog is {config.store_path_commit_log}, which {count} brokers cannot "
            "share: leave it out, and each has its log in its own store"
        )
    tls = ProcessTls(config, name="the fleet")
    brokers = []
    for number in range(count):
        name = f"{config.broker_name}-{number + 1}"
        port = config.listen_port and config.listen_port + _ports_apart(config) * number
        options = [
            *("-n", config.namesrv_addr, "--name", name, "--host", config.bind_address),
            *("--port", str(port), "--log-level", log_level),
            *("--data", str(fleet_store(config.store_path_root_dir, number + 1))),
        ]
        if config_file is not None:
            options += ["-c", str(config_file)]
        if config.tls_config_file is not None:
            options += ["--tls-config", str(config.tls_config_file)]
        brokers.append(BrokerProcess(name, options))
    async with run_fleet(brokers), trio.open_nursery() as nursery:
        nursery.start_soon(tls.watch)
        nursery.start_soon(
            keep_logical,
            config.name_servers[0],
            count,
            config.inner_credentials,
            tls.dial(dial_tcp),
        )
        yield Ready(
            (
                f"name server {name_server}",
                *(f"broker {broker.name} {broker.facts['broker']}" for broker in brokers),
            ),
            {
                "namesrv": name_server,
                "broker": brokers[0].facts["broker"],
                "brokers": [dict(broker.facts) for broker in brokers],
                "data": str(config.store_path_root_dir),
            },
        )
        nursery.cancel_scope.cancel()
