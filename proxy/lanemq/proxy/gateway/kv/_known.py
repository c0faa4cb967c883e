"""A log that all proxies of a cluster share, as one of them knows it.

Its birth is kept in a file and told to the other proxies. A proxy that finds another log serves
nothing by that: queues may have moved by the one that it knows, and keys may have been put there.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger, make_directories, replace_file

from ..._settings import ConfigError, read_file
from ._log_name import LogName
from ._queue import NotYet

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
FILE: Final = "log.json"
"""The file of the log of orders."""
KEY_LOGS: Final = "key-logs"
"""The directory with a file for each log of keys."""
LOGS: Final = "LANEMQ_LOGS"
"""The namespace of the name servers' own table that has the broker of each log. A proxy that starts
while that broker is down must not take the log for one that was never made."""
PEERS_S: Final = 10.0
"""Seconds from the start for which other proxies are waited for where no log is known: one that
starts at once serves its port some seconds later."""


class LostLog(NotYet):
    """The log that is known is not there."""


class OtherLog(LostLog):
    """The log that was read is not the one that is known."""


@final
class KnownLog:
    """The log of one topic: that of orders, or that of a namespace of keys."""

    def __init__(
        self,
        path: Path | None,
        topic: str,
        *,
        settle_s: float = 0.0,
        saves: bool = True,
        peers: Collection[str] = (),
        is_of_keys: bool = False,
        begun_s: float | None = None,
    ) -> None:
        """``path`` is the file, None keeps nothing; one of a proxy's workers ``saves`` it.

        Where there is none, the other proxies, ``peers``, are waited for: each may know a log. They
        had the time since ``begun_s``, by default from now on.

        No log begins before all masters have been the same for ``settle_s``: that of a cluster
        that has just been restarted may be at one that is not listed yet, and other proxies are
        asked meanwhile. Proxies that run write back what the log of orders has lost; one that
        ``is_of_keys`` nobody can. Raises ``ConfigError`` for a file that cannot be read.
        """
        self._path = path
        self._saves = saves
        self._settle_s = settle_s
        self._topic = topic
        self.is_of_keys = is_of_keys
        self._own = None if path is None or not path.exists() else _read(path, topic)
        self._is_saved = True
        self._told: dict[str, LogName] = {}
        self._unheard = set(peers)
        self._begun_s = trio.current_time() if begun_s is None else begun_s
        self._is_followed = False

    @property
    def birth(self) -> str:
        """The birth of the log, with which it is to begin again where its broker has lost all of
        it; empty where no log is known."""
        found = self._own or next(iter(self._told.values()), None)
        return "" if found is None else found.birth

    # What other proxies know

    @property
    def own(self) -> LogName | None:
        """The log that this proxy knows; None where it knows none."""
        return self._own

    @property
    def is_known(self) -> bool:
        """True if this proxy or another one knows a log."""
        return self._own is not None or bool(self._told)

    def told(self) -> str:
        """Return what other proxies are told of it; empty where no log is known."""
        return "" if self._own is None else msgspec.json.encode(self._own).decode()

    def note_told(self, proxy: str, text: str) -> None:
        """Note what another proxy knows. One from before this knows of none."""
        try:
            found = msgspec.json.decode(text, type=LogName) if text else None
        except msgspec.DecodeError as error:
            LOGGER.error("the proxy at %s does not say which log it knows: %s", proxy, error)
            found = None
        self.note_name(proxy, found)

    def note_name(self, proxy: str, found: LogName | None) -> None:
        """Note the log that another proxy knows; None for one that knows none."""
        self._unheard.discard(proxy)
        if found is None:
            self._told.pop(proxy, None)
        elif found != self._told.get(proxy):
            self._told[proxy] = found
            if why := self.why_differs(proxy):
                LOGGER.error("the proxy at %s: %s", proxy, why)

    def why_differs(self, proxy: str) -> str:
        """Return what is wrong with what another proxy knows; empty if nothing is."""
        own, other = self._own, self._told.get(proxy)
        if own is None or other is None or own.agrees(other):
            return ""
        return (
            f"it knows topic {self._topic} at broker {other.broker}, begun as {other.begun_as}, "
            f"and this one that at broker {own.broker}, begun as {own.begun_as}: one of the two "
            f"serves the {'keys' if self.is_of_keys else 'order'} of another log"
        )

    # What is found

    def expected(self) -> LogName | None:
        """Return the log that is known here, or else to other proxies; None where none is. Raises
        ``NotYet`` for proxies that do not agree."""
        if self._own is not None:
            return self._own
        known: LogName | None = None
        for name in self._told.values():
            if known is not None and not known.agrees(name):
                logs = self._told.items()
                found = " and ".join(f"{proxy} that at {log.broker}" for proxy, log in logs)
                raise NotYet(f"other proxies know several logs {self._topic}: {found}")
            known = name if known is None else known.joined(name)
        return known

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

    def check_place(self, queues: int | None, broker: str, *, is_noted: bool) -> None:
        """Check the topic at its broker, which name servers have noted or not: it has so many
        queues, None where it is not listed there. Raises ``LostLog`` where it may not be made."""
        known = self.expected()
        if known is None or (is_noted and not self.is_of_keys):
            return
        if queues is None:
            raise LostLog(
                f"no name server lists topic {self._topic} at broker {broker}, which had it: "
                f"{self.way_on}"
            )
        if queues != len(known.births):
            raise LostLog(
                f"topic {self._topic} at broker {broker} has {queues} queues, and {self._source} "
                f"knows a log of {len(known.births)}: {self.way_on}"
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

    def check(
        self,
        birth: str,
        broker: str,
        is_dropped: bool = False,
        *,
        partition: int = 0,
        partitions: int = 1,
    ) -> None:
        """Check the log of a partition, and note it; ``birth`` is empty where it has no records.
        That of a namespace that ``is_dropped`` has nothing to be missed, and is forgotten.

        Raises ``OtherLog``, ``NotYet``. Where this process has read the log of orders before, its
        broker has lost it since, and it has begun again: what was lost is written back.
        """
        own = self._own
        if is_dropped:
            self._forget(partition)
            return
        known = None if self._is_followed and not self.is_of_keys else self.expected()
        self._check_heard()
        if known is not None:
            self._check_birth(known, birth, broker, partition, partitions)
        if not birth:
            return
        self._is_followed = True
        if known is None:
            known = LogName("", broker, ("",) * (partitions - 1))
        found = LogName(known.birth, broker, known.others).with_birth(partition, birth)
        if own != found:
            self._own, self._is_saved = found, False
        self._save()

    def _check_birth(
        self, known: LogName, birth: str, broker: str, partition: int, partitions: int
    ) -> None:
        """Check the birth of a partition. Raises ``OtherLog``."""
        named = f"topic {self._topic} at broker {broker}"
        if len(known.births) != partitions:
            raise OtherLog(
                f"{named} is followed as a log of {partitions} queues, and {self._source} knows "
                f"one of {len(known.births)}: {self.way_on}"
            )
        expected = known.births[partition]
        if expected in {"", birth}:
            return
        found = f"begun as {birth}" if birth else "without records"
        queue = f", in queue {partition}" if partitions > 1 else ""
        raise OtherLog(
            f"{named} is a log {found}{queue}, and {self._source} knows that at broker "
            f"{known.broker}, begun as {expected}: {self.way_on}"
        )

    def _forget(self, partition: int) -> None:
        """Know the log of a partition no longer."""
        own = self._own
        if own is not None and partition < len(own.births) and own.births[partition]:
            own = own.with_birth(partition, "")
            self._own, self._is_saved = own if any(own.births) else None, False
        self._save()

    def _check_heard(self) -> None:
        """Raise ``NotYet`` where no log is known here, and other proxies have not said yet which
        they know."""
        if self._own is None:
            check_heard(self._topic, self._unheard, self._begun_s)

    @property
    def _source(self) -> str:
        """The file, or the proxy, that names the log."""
        if self._own is None:
            return f"the proxy at {min(self._told, default='')}"
        return "this proxy" if self._path is None else str(self._path)

    @property
    def way_on(self) -> str:
        """Return the advice for a known log that is not found, as a clause."""
        lacks, gone, file = "all moves", "", FILE
        if self.is_of_keys:
            lacks, gone = "all keys", ", with all keys in it"
            file = f"{KEY_LOGS}/{self._topic}.json"
        return (
            f"nothing is served by a log that may not have {lacks}. If the broker that is known "
            "comes back with its log, let name servers say so (mqadmin updateKvConfig -s "
            f"{LOGS} -k {self._topic} -v BROKER). If that log is gone{gone}, or was deleted, stop "
            "all proxies that know it, delete it from the name servers' table if that names it "
            f"still (mqadmin deleteKvConfig -s {LOGS} -k {self._topic}), remove {file} from "
            "the --data of them all, and start them"
        )

    def _save(self) -> None:
        path = self._path
        if self._is_saved or path is None or not self._saves:
            return
        try:
            if self._own is None:
                path.unlink(missing_ok=True)
            else:
                make_directories(path.parent)
                replace_file(path, msgspec.json.encode(self._own))
        except OSError as error:
            LOGGER.warning("%s, which names the log, cannot be written: %s", path, error)
        else:
            self._is_saved = True


def check_heard(topic: str, unheard: Collection[str], begun_s: float) -> None:
    """Raise ``NotYet`` while other proxies are waited for since ``begun_s``, and some, ``unheard``,
    have not said yet which log they know; none is known here."""
    if unheard and trio.current_time() - begun_s < PEERS_S:
        raise NotYet(
            f"this proxy knows no log {topic}, and the proxy at {min(unheard)} has not said yet "
            f"which it knows: it is waited for during {PEERS_S:g} s from the start"
        )


def _read(path: Path, topic: str) -> LogName:
    try:
        return msgspec.json.decode(read_file(path), type=LogName)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} does not name the log {topic}: {error}. Without it, name servers and other "
            "proxies say which that is: remove it"
        ) from error
