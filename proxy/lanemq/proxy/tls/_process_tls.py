"""The TLS of a process: at its ports, and on its links; kept up to date with its files.

Source: RocketMQ 4.9.8, BrokerController.initialize (its FileWatchService). That waits until
certificate and key have both changed; here a set of files that fits together is taken.
"""

import ssl
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import Dial, over_tls

from .._file_stamps import stamp_of
from .._settings import ConfigError
from ..net.transport._tls import ServerTls
from ._contexts import client_context, files_of, server_context
from ._tls_settings import PortTlsSettings

LOGGER = get_logger("lanemq.proxy.tls", by_peers=True)

LOOK_S: Final = 1.0
"""Seconds between looks at the files; a change is taken when it has lasted for so long."""


@final
class ProcessTls:
    """The contexts of one server of a process, and their files. Raises ``ConfigError``."""

    def __init__(self, settings: PortTlsSettings, *, name: str) -> None:
        self._settings = settings
        self._name = name
        self._files = files_of(settings)
        self._taken = stamp_of(self._files)  # before they are read: a later change is seen
        self.client = client_context(settings)
        """The rules for servers to connect to; None for plain connections."""
        self.server = ServerTls(settings.tls_server_mode, server_context(settings))
        """The TLS of the ports."""

    def dial(self, dial: Dial) -> Dial:
        """Return a way to connect by ``dial``, with TLS if that is wanted."""
        if self.client is None:
            return dial

        async def dial_tls(host: str, port: int) -> trio.abc.Stream:
            assert self.client is not None
            return await over_tls(dial, self.client)(host, port)

        return dial_tls

    def say(self) -> None:
        """Log the settings in force, at a start."""
        server, settings = self.server, self._settings
        if server.is_spoken:
            LOGGER.info(
                "%s: TLS %s, with the certificate of %s",
                self._name,
                server.mode.value,
                settings.tls_server_cert_path,
            )
        if self.client is not None and self.client.verify_mode is ssl.CERT_NONE:
            LOGGER.warning(
                "%s connects to name servers and brokers with TLS, but trusts whoever answers: "
                "name their authority in tls.client.trustCertPath",
                self._name,
            )

    async def watch(self) -> None:
        """Take new files for new connections, until cancelled; broken ones change nothing."""
        if not self._files:
            return
        last = self._taken
        while True:
            await trio.sleep(LOOK_S)
            now = await trio.to_thread.run_sync(stamp_of, self._files)
            if now != self._taken and now == last:
                self._taken = now
                await self._reload()
            last = now

    async def _reload(self) -> None:
        """Take the files as they are; where they cannot be used, the log says why."""
        settings = self._settings
        try:
            server = await trio.to_thread.run_sync(server_context, settings)
            client = await trio.to_thread.run_sync(client_context, settings)
        except ConfigError as error:
            LOGGER.error(
                "%s goes on with the certificates it has: %s. New files are looked for every %g s",
                self._name,
                error,
                LOOK_S,
            )
            return
        self.server.context, self.client = server, client
        LOGGER.info("%s: new certificates are in force for new connections", self._name)
