"""Uses of a cluster by Java clients that sign, and what comes of them."""

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import trio

from ..peers._oracle import ask_oracle
from ._clusters import Cluster

SOURCE_POSITION: Final = re.compile(r", org\.apache\.rocketmq\.[\w.$]+\(\w+\.java:\d+\)$")
"""The end of Apache's remark about an error: the line of its source, different in each release."""


@final
@dataclass(frozen=True, slots=True)
class Attempt:
    """One use of a cluster by a Java client, and what should come of it."""

    account: tuple[str, str]
    """Access key and secret key; both empty for a client that does not sign."""
    what: str
    """``create``, ``send``, ``batch``, ``pull`` or ``listen``."""
    topic: str
    group: str
    expected: str
    """``ok`` and a result, or the broker's code and text."""

    def line(self, name_server: str) -> str:
        """Return the question for the program ``Access``."""
        parts = (name_server, *self.account, self.what, self.topic, self.group)
        return " ".join(b64encode(part.encode()).decode().replace("=", ".") for part in parts)


async def try_access(cluster: Cluster, version: str, attempts: Sequence[Attempt]) -> list[str]:
    """Return the result of each attempt, by clients of ``version``.

    Raises ``PeersMissing``, ``BuildFailed`` and ``subprocess.CalledProcessError``.
    """
    lines = [attempt.line(cluster.name_server) for attempt in attempts]
    ask = partial(ask_oracle, "Access", f"server-{version}", lines)
    answers = await trio.to_thread.run_sync(ask)
    return [words(b64decode(answer).decode()) for answer in answers]


def words(text: str) -> str:
    """Return a remark without the position in Apache's source."""
    return SOURCE_POSITION.sub("", text)


def broker_address(cluster: Cluster) -> str:
    """Return the address in the configuration of a cluster's broker."""
    for name in ("broker.conf", "lanemq-broker.conf"):
        path = cluster.folder / name
        if path.exists():
            for line in path.read_text().splitlines():
                key, _, value = line.partition("=")
                if key == "listenPort":
                    return f"127.0.0.1:{value}"
    command = cluster.broker.command
    return f"127.0.0.1:{command[command.index('--broker-port') + 1]}"
