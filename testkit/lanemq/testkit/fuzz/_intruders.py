"""Peers with accounts that ask brokers for what is not theirs, in every form that there is.

One account may use nothing: whatever it sends, no answer may be a success. Another one may use
objects of its own: its requests name or find objects of somebody else, with optional fields left
away, empty, or beside fields of other requests.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, final

import trio

from lanemq.wire import HostAddress, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.requests import REQUESTS, InBody, Port, RequestSpec, Right

from ..proxy.accounts import ACCOUNTS, BARE, CHIEF, OWNER, WEAK, make_users
from ..proxy.brokers import Client
from ..proxy.foreign import OF_HALVES, SECRET, Attempt, Stored, attempts, store_foreign
from ..proxy.peers import Peer
from ..proxy.processes import ServerProcess, server_process
from ._requests import frame

REQUESTS_EACH: Final = 50
"""Requests of one connection."""
ANSWER_S: Final = 10.0
HARMLESS: Final = frozenset({RequestCode.UNREGISTER_CLIENT})
"""Without a consumer group this has nothing but the connection's own producers leave."""
_INNER: Final = 'innerClientAuthenticationCredentials={{"accessKey":"{}","secretKey":"{}"}}\n'
SETTINGS: Final[Mapping[str, str]] = {
    "4.x": "aclEnable=true\nrocketmqHome=home\n" + _INNER.format(*CHIEF),
    "5.x": (
        "authenticationEnabled=true\nauthorizationEnabled=true\n"
        + 'initAuthenticationUser={{"username":"{}","password":"{}"}}\n'.format(*CHIEF)
        + _INNER.format(*CHIEF)
    ),
}
PROTECTED: Final = tuple(
    spec
    for spec in REQUESTS.values()
    if Port.BROKER in spec.ports and any(one.account is not Right.NONE for one in spec.touches)
)


@final
class Guarded(NamedTuple):
    """A broker with accounts of one kind, and messages of their owner's."""

    kind: str
    process: ServerProcess
    plain: Stored
    half: Stored


@asynccontextmanager
async def guarded_broker(
    inside: Path, kind: str, name_server: HostAddress
) -> AsyncIterator[Guarded]:
    """Run a broker with the accounts of ``ACCOUNTS``, in a directory of its own."""
    directory = inside / f"guarded-{kind}"
    conf = directory / "home" / "conf"
    is_new = not directory.exists()
    if is_new:
        conf.mkdir(parents=True)
        (conf / "plain_acl.yml").write_text(ACCOUNTS)
        (directory / "broker.conf").write_text(SETTINGS[kind])
    command = ["broker", "-c", "broker.conf", "--host", "127.0.0.1", "--log-level", "warning"]
    command += ["--port", "0", "--data", "store", "--name", f"guarded-{kind[0]}"]
    async with server_process([*command, "-n", str(name_server)], directory=directory) as process:
        async with connected(process.address(), CHIEF) as chief:
            if kind == "5.x" and is_new:
                await make_users(chief)
        async with connected(process.address(), OWNER) as owner:
            plain, half = await store_foreign(owner)
        yield Guarded(kind, process, plain, half)


@asynccontextmanager
async def connected(address: HostAddress, account: tuple[str, str]) -> AsyncIterator[Client]:
    """Connect a client that signs with an account."""
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        client = Client(Peer(stream))
        client.account = account
        yield client


async def intrude(guarded: Guarded, seed: str, note: Callable[[str], None]) -> None:
    """Play intruders, one connection after the other; ``note`` gets what they should not get."""
    rng = random.Random(seed)
    ports = [guarded.process.address(), guarded.process.address("logical_listener")]
    listed = cache(lambda spec: _attempts(spec, guarded))
    while guarded.process.is_running:
        account = rng.choice((WEAK, BARE))
        try:
            async with connected(rng.choice(ports), account) as client:
                for _ in range(REQUESTS_EACH):
                    spec = rng.choice(PROTECTED)
                    made = rng.choice(listed(spec))
                    code = int(spec.code)
                    if account is BARE and rng.random() < 0.5:
                        almost = frame(rng, 0)
                        code, made = almost.code, Attempt(dict(almost.fields), almost.body)
                    await _try(client, code, made, f"{guarded.kind}, {account[0]}", note)
        except (OSError, EOFError, trio.BrokenResourceError):
            await trio.sleep(0.1)  # whether it has gone is looked for elsewhere


def _attempts(spec: RequestSpec, guarded: Guarded) -> list[Attempt]:
    stored = guarded.half if spec.code in OF_HALVES else guarded.plain
    return list(attempts(spec, stored, foreign="victim", own="mine"))


async def _try(
    client: Client, code: int, made: Attempt, who: str, note: Callable[[str], None]
) -> None:
    try:
        client.frame(code, made.fields, made.body)
    except (ValueError, UnicodeError):  # one that cannot be written
        return
    answer: Frame | None = None
    with trio.move_on_after(ANSWER_S):
        answer = await client.call(code, made.fields, made.body)
    shown = f"{who}: {code} {str(made.fields)[:500]} {made.body[:200]!r}"
    if answer is None and code != RequestCode.END_TRANSACTION:  # an unknown end gets no answer
        note(f"no answer for {shown}")
    if answer is None:
        return
    if SECRET in answer.body or (answer.code == ResponseCode.SUCCESS and _touches(code, made)):
        note(f"an intruder had success: {shown}")


def _touches(code: int, made: Attempt) -> bool:
    """Return whether a request touches anything that takes a right."""
    spec = REQUESTS.get(code)
    if spec is None or spec.code in HARMLESS:
        return False
    for touch in spec.touches:
        if isinstance(touch.source, InBody):
            return any(touch.source.read(made.body))
    return any(touch.account is not Right.NONE for touch in spec.touches)
