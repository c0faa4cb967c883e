"""The logs of all namespaces of keys, as one proxy knows them.

There is a file for each in a directory. Namespaces that the cluster no longer has, and whose logs
are known here or to other proxies, are open all the same, unserved: they must not begin again.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger
from lanemq.wire.kv import PARTITIONS_MAX, namespace_problem

from ._known import KnownLog, check_heard
from ._log_name import LogName

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
PREFIX: Final = "LANEMQ_KEYS_"
"""Begin of the names of topics that are logs of keys."""
_DECODER: Final = msgspec.json.Decoder(dict[str, LogName])


@final
class KnownLogs:
    """The logs, by namespace."""

    def __init__(
        self, folder: Path | None, *, saves: bool = True, peers: Collection[str] = ()
    ) -> None:
        """``folder`` has the files, None keeps nothing; one of a proxy's workers ``saves`` them.

        Where a log is not known, the other proxies, ``peers``, are waited for. Raises
        ``ConfigError`` for a file that cannot be read.
        """
        self._folder = folder
        self._saves = saves
        self._unheard = set(peers)
        self._begun_s = trio.current_time()
        self._texts: dict[str, str] = {}
        self._told: dict[str, Mapping[str, LogName]] = {}
        self._logs: dict[str, KnownLog] = {}
        for path in sorted(folder.glob(f"{PREFIX}*.json")) if folder is not None else ():
            namespace = path.stem.removeprefix(PREFIX)
            if namespace_problem(namespace) is None:
                self.of(namespace)

    def of(self, namespace: str) -> KnownLog:
        """Return the log of a namespace, which is one from now on."""
        known = self._logs.get(namespace)
        if known is None:
            topic = PREFIX + namespace
            known = self._logs[namespace] = KnownLog(
                None if self._folder is None else self._folder / f"{topic}.json",
                topic,
                saves=self._saves,
                peers=self._unheard,
                is_of_keys=True,
                begun_s=self._begun_s,
            )
            for proxy, names in self._told.items():
                known.note_name(proxy, names.get(namespace))
        return known

    def expected(self, namespace: str) -> LogName | None:
        """Return the log of a namespace that is known here, or else to other proxies; None where
        none is. Raises ``NotYet``; see ``KnownLog.expected``."""
        known = self._logs.get(namespace)
        return None if known is None else known.expected()

    def check_heard(self, namespace: str) -> None:
        """Raise ``NotYet`` where other proxies have not said yet which logs they know, and that of
        the namespace is not known."""
        known = self._logs.get(namespace)
        if known is None or known.own is None:
            check_heard(PREFIX + namespace, self._unheard, self._begun_s)

    @property
    def namespaces(self) -> list[str]:
        """The namespaces whose logs are known here or to other proxies."""
        return sorted(filter(self.is_known, self._logs))

    def is_known(self, namespace: str) -> bool:
        """Return whether the log of a namespace is known here or to another proxy."""
        known = self._logs.get(namespace)
        return known is not None and known.is_known

    # What other proxies know

    def told(self) -> str:
        """Return what other proxies are told."""
        own = {name: log.own for name, log in self._logs.items() if log.own is not None}
        return msgspec.json.encode(own).decode()

    def note_told(self, proxy: str, text: str) -> None:
        """Note what another proxy knows. One from before this knows none."""
        self._unheard.discard(proxy)
        if self._texts.get(proxy) == text:
            return
        self._texts[proxy] = text
        try:
            found = _DECODER.decode(text) if text else {}
        except msgspec.DecodeError as error:
            LOGGER.error(
                "the proxy at %s does not say which logs of keys it knows: %s", proxy, error
            )
            found = {}
        sound = {name: log for name, log in found.items() if namespace_problem(name) is None}
        names = self._told[proxy] = dict(islice(sound.items(), PARTITIONS_MAX))
        for namespace in sorted({*names, *self._logs}):
            self.of(namespace).note_name(proxy, names.get(namespace))

    def why_differs(self, proxy: str) -> str:
        """Return what is wrong with what another proxy knows; empty if nothing is."""
        reasons = (log.why_differs(proxy) for _, log in sorted(self._logs.items()))
        return next(filter(None, reasons), "")
