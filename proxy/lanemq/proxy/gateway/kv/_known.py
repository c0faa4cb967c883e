"""The log that all proxies of a cluster share, as one of them knows it.

Its birth, the identity with which it began, is kept in a file and told to the other proxies. A
proxy that finds another log serves nothing by that: queues may have moved by the one that it knows.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger, make_directories, replace_file

from ..._settings import ConfigError, read_file
from ._queue import NotYet

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
FILE: Final = "log.json"
LOGS: Final = "LANEMQ_LOGS"
"""The namespace of the name servers' own table that has the broker of each log. A proxy that starts
while that broker is down must not take the log for one that was never made."""
PEERS_S: Final = 10.0
"""Seconds from the start for which other proxies are waited for where no log is known: one that
starts at once serves its port some seconds later."""


class OtherLog(NotYet):
    """The log that was read is not the one that is known."""


@final
class LogName(msgspec.Struct, frozen=True):
    """A log."""

    birth: str
    """The identity with which it began."""
    broker: str
    """The broker that has it."""


@final
class KnownLog:
    """The log of one topic."""

    def __init__(
        self,
        path: Path | None,
        topic: str,
        *,
        settle_s: float = 0.0,
        saves: bool = True,
        peers: Collection[str] = (),
    ) -> None:
        """``path`` is the file, None keeps nothing; one of a proxy's workers ``saves`` it.

        Where there is none, the other proxies, ``peers``, are waited for: each may know a log.

        No log begins before all masters have been the same for ``settle_s``: that of a cluster
        that has just been restarted may be at one that is not listed yet, and other proxies are
        asked meanwhile. Raises ``ConfigError`` for a file that cannot be read.
        """
        self._path = path
        self._saves = saves
        self._settle_s = settle_s
        self._topic = topic
        self._own = None if path is None or not path.exists() else _read(path)
        self._is_saved = True
        self._told: dict[str, LogName] = {}
        self._unheard = set(peers)
        self._begun_s = trio.current_time()
        self._is_followed = False

    @property
    def birth(self) -> str:
        """The birth of the log, with which it is to begin again where its broker has lost all of
        it; empty where no log is known."""
        found = self._own or next(iter(self._told.values()), None)
        return "" if found is None else found.birth

    # What other proxies know

    def told(self) -> str:
        """Return what other proxies are told of it; empty where no log is known."""
        return "" if self._own is None else msgspec.json.encode(self._own).decode()

    def note_told(self, proxy: str, text: str) -> None:
        """Note what another proxy knows. One from before this knows of none."""
        self._unheard.discard(proxy)
        try:
            found = msgspec.json.decode(text, type=LogName) if text else None
        except msgspec.DecodeError as error:
            LOGGER.error("the proxy at %s does not say which log it knows: %s", proxy, error)
            found = None
        if found is None:
            self._told.pop(proxy, None)
        elif found != self._told.get(proxy):
            self._told[proxy] = found
            if why := self.why_differs(proxy):
                LOGGER.error("the proxy at %s: %s", proxy, why)

    def why_differs(self, proxy: str) -> str:
        """Return what is wrong with what another proxy knows; empty if nothing is."""
        own, other = self._own, self._told.get(proxy)
        if own is None or other is None or own.birth == other.birth:
            return ""
        return (
            f"it knows topic {self._topic} at broker {other.broker}, begun as {other.birth}, and "
            f"this one that at broker {own.broker}, begun as {own.birth}: one of the two serves "
            "the order of another log"
        )

    # What is found

    def expected(self) -> LogName | None:
        """Return the log that is known here, or else to other proxies; None where none is. Raises
        ``NotYet`` for proxies that do not agree."""
        if self._own is not None:
            return self._own
        known = {name.birth: name for name in self._told.values()}
        if len(known) > 1:
            found = " and ".join(f"{name} that at {log.broker}" for name, log in self._told.items())
            raise NotYet(f"other proxies know several logs {self._topic}: {found}")
        return next(iter(known.values()), None)

    def check_broker(self, noted: str | None) -> str | None:
        """Return the broker of the log, by what is known and what name servers have noted; None
        where nobody knows. Raises ``NotYet``."""
        known = self.expected()
        if known is None or noted in {None, known.broker}:
            return noted if known is None else known.broker
        raise NotYet(
            f"name servers say that topic {self._topic} is at broker {noted}, and by "
            f"{self._source} it is at {known.broker}: {self.way_on}"
        )

    def check_begin(self, same_s: float) -> None:
        """Raise ``NotYet`` while there may be a log, so that none may begin; all masters have been
        the same for ``same_s``."""
        if self.expected() is not None:
            raise NotYet(f"{self._source} knows of topic {self._topic}")
        self._check_heard()
        if same_s < self._settle_s:
            raise NotYet(
                f"no broker that is listed now has topic {self._topic}: it begins once all masters "
                f"have been the same for {self._settle_s:g} s"
            )

    def check(self, birth: str, broker: str) -> None:
        """Check a log that was read to its end, and note it; ``birth`` is empty where it has no
        records. Raises ``OtherLog``, ``NotYet``.

        Where this process has read it before, its broker has lost it since, and it has begun
        again: what was lost is written back.
        """
        known = None if self._is_followed else self.expected()
        self._check_heard()
        if known is not None and birth != known.birth:
            found = f"begun as {birth}" if birth else "without records"
            raise OtherLog(
                f"topic {self._topic} at broker {broker} is a log {found}, and {self._source} "
                f"knows that at broker {known.broker}, begun as {known.birth}: {self.way_on}"
            )
        if not birth:
            return
        self._is_followed = True
        if self._own != LogName(birth, broker):
            self._own, self._is_saved = LogName(birth, broker), False
        self._save()

    def _check_heard(self) -> None:
        """Raise ``NotYet`` where no log is known here, and other proxies have not said yet which
        they know."""
        is_late = trio.current_time() - self._begun_s >= PEERS_S
        if self._own is None and self._unheard and not is_late:
            raise NotYet(
                f"this proxy knows no log {self._topic}, and the proxy at {min(self._unheard)} has "
                f"not said yet which it knows: it is waited for during {PEERS_S:g} s from the start"
            )

    @property
    def _source(self) -> str:
        """The file, or the proxy, that names the log."""
        if self._own is None:
            return f"the proxy at {min(self._told, default='')}"
        return "this proxy" if self._path is None else str(self._path)

    @property
    def way_on(self) -> str:
        """Return the advice for a known log that is not found, as a clause."""
        return (
            "nothing is served by a log that may not have all moves. If the broker that is known "
            "comes back with its log, let name servers say so (mqadmin updateKvConfig -s "
            f"{LOGS} -k {self._topic} -v BROKER). If that log is gone, or was deleted, stop "
            "all proxies that know it, delete it from the name servers' table if that names it "
            f"still (mqadmin deleteKvConfig -s {LOGS} -k {self._topic}), remove {FILE} from "
            "the --data of them all, and start them"
        )

    def _save(self) -> None:
        if self._is_saved or self._path is None or not self._saves:
            return
        try:
            make_directories(self._path.parent)
            replace_file(self._path, msgspec.json.encode(self._own))
        except OSError as error:
            LOGGER.warning("%s, which names the log, cannot be written: %s", self._path, error)
        else:
            self._is_saved = True


def _read(path: Path) -> LogName:
    try:
        return msgspec.json.decode(read_file(path), type=LogName)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} does not name the log of orders: {error}. Without it, name servers and other "
            "proxies say which that is: remove it"
        ) from error
