"""The account files below a home directory: ``conf/plain_acl.yml`` and all of ``conf/acl``.

Source: RocketMQ 4.9.8, PlainPermissionManager, AclFileWatchService.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from lanemq.local import get_logger, replace_file
from lanemq.wire.bodies import DataVersion

from .._settings import ConfigError, read_file
from ._accounts import Account, Accounts
from ._addresses import AddressPattern, WhiteList

if TYPE_CHECKING:
    from ._account_text import AccountText
    from ._reading import AccountFile

LOGGER = get_logger("lanemq.proxy.acl", by_peers=True)

_MAIN_FILE: Final = Path("conf", "plain_acl.yml")
_DIRECTORY: Final = Path("conf", "acl")
_SUFFIXES: Final = frozenset({".yml", ".yaml"})

Edit = Callable[["Mapping[Path, AccountText]"], Iterable[Path]]
"""A change of the texts of files; it returns the paths of those that it has changed."""


@final
class AccountFiles:
    """The account files of a broker."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def paths(self) -> list[Path]:
        """Return the files, those of ``conf/acl`` first, in the order of their names.

        Links are followed; hidden files and directories are left out: mounted volumes keep their
        versions there. Raises ``ConfigError`` for what cannot be looked at: a file that nobody
        sees would count as deleted, and leave its accounts to what other files say of them.
        """
        try:
            found = sorted(_below(self._home / _DIRECTORY, set()))
            if _is_there(self.main):
                found.append(self.main)
            for path in found:
                if not stat.S_ISREG(path.stat().st_mode):
                    raise ConfigError(f"{path} is no file")
        except OSError as error:
            raise ConfigError(f"{error.filename} cannot be read: {error.strerror}") from error
        return found

    @property
    def main(self) -> Path:
        """The path of ``plain_acl.yml``, which gets new accounts."""
        return self._home / _MAIN_FILE

    def read(self) -> Accounts:
        """Read all files. Raises ``ConfigError``, which names the file, the line and the key."""
        return self.parse(self.data())

    def change(self, edit: Edit, now_ms: int) -> Accounts:
        """Change files, and return the accounts then. Blocks.

        ``edit`` gets the texts by their paths, those that count first, and returns the paths that
        it has changed. Whatever could not be read afterwards is not written: raises
        ``ConfigError``, or what ``edit`` raises. After an ``OSError`` each file is as it was, or
        changed.
        """
        from ._account_text import AccountText
        from ._reading import read_account_file

        with _alone(self.main.parent):
            data = self.data()
            for path, text in data.items():
                read_account_file(text, source=str(path))
            data.setdefault(self.main, b"")
            texts = {path: AccountText(text) for path, text in data.items()}
            fresh = {path: texts[path].encode(now_ms) for path in edit(texts)}
            accounts = self.parse({**data, **fresh})
            for path, text in fresh.items():
                replace_file(path, text, follows_links=True)
        return accounts

    def data(self) -> dict[Path, bytes]:
        """Return the contents of all files. Raises ``ConfigError`` where one cannot be read."""
        return {path: read_file(path) for path in self.paths()}

    def parse(self, data: Mapping[Path, bytes]) -> Accounts:
        """Read the accounts from the contents of files; errors as ``read``."""
        from ._reading import read_account_file  # only brokers with ACL need the parser

        if not data:
            raise ConfigError(
                f"aclEnable is true, but there is neither {self.main} nor a .yml "
                f"file in {self._home / _DIRECTORY}: rocketmqHome says where conf is"
            )
        files = [(path, read_account_file(text, source=str(path))) for path, text in data.items()]
        return _together(files)


def _below(directory: Path, above: set[tuple[int, int]]) -> Iterator[Path]:
    """Iterate over the account files below a directory, where there is one."""
    if not _is_there(directory):
        return
    found = directory.stat()
    identity = found.st_dev, found.st_ino
    if identity in above:
        return  # a link to a directory that it is in
    for entry in os.scandir(directory):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(Path(entry.path), above | {identity})
        elif Path(entry.name).suffix in _SUFFIXES:
            yield Path(entry.path)


def _is_there(path: Path) -> bool:
    """Return whether there is something, which may be a link to nowhere. Raises ``OSError``."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep other brokers that share the files from changing them meanwhile."""
    held = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _version(path: Path, file: "AccountFile") -> DataVersion:
    if file.version is not None:
        return file.version
    try:
        return DataVersion(path.stat().st_mtime_ns // 1_000_000)
    except OSError:
        return DataVersion()  # deleted just now


def _together(files: "list[tuple[Path, AccountFile]]") -> Accounts:
    """Put the accounts of all files together; of an access key the first account counts."""
    by_key: dict[str, Account] = {}
    patterns: list[AddressPattern] = []
    for path, file in files:
        for warning in file.warnings:
            LOGGER.warning("%s", warning)
        patterns += file.white_list
        for account in file.accounts:
            if by_key.setdefault(account.access_key, account) is not account:
                LOGGER.warning(
                    "%s: accessKey %s stands in another file too, which counts",
                    path,
                    account.access_key,
                )
    if not by_key and not patterns:
        names = ", ".join(str(path) for path, _ in files)
        raise ConfigError(
            f"{names}: neither accounts nor globalWhiteRemoteAddresses; nobody would be let in"
        )
    return Accounts(
        by_key=by_key,
        white_list=WhiteList(patterns),
        versions={str(path): _version(path, file) for path, file in files},
    )
