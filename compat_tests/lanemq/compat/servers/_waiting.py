"""Waits for changes in servers, which are processes of their own and do not announce them."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from lanemq.sdk import ClientOptions, ProducerOptions, RemotingOptions

PATIENT_S: Final = 60.0
"""Seconds for one question of the tests' own to a server. A busy machine is not a failure."""
CALL_S: Final = 20.0
"""Seconds for one call of an SDK's client, where the default is 3 s. A failed call is repeated
within the time that tests wait for its result."""
PATIENT_CLIENT: Final = ClientOptions(
    call_timeout_s=CALL_S, remoting=RemotingOptions(connect_timeout_s=CALL_S)
)
PATIENT_PRODUCER: Final = ProducerOptions(send_timeout_s=CALL_S, client=PATIENT_CLIENT)


def patient(name_server: str) -> str:
    """Return a name server as programs get it that are run as they stand: a connection string by
    which their calls take as long as those of a test may."""
    times = ("send_timeout_s", "call_timeout_s", "connect_timeout_s")
    return f"rocketmq://{name_server}/?" + "&".join(f"{name}={PATIENT_S}" for name in times)


async def until(holds: Callable[[], Awaitable[bool]], *, within_s: float = 180.0) -> None:
    """Ask again and again until ``holds``. Raises ``trio.TooSlowError`` after ``within_s``."""
    with trio.fail_after(within_s):
        while not await holds():  # noqa: ASYNC110 - nobody could set an event
            await trio.sleep(0.05)
