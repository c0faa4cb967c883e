"""Generated from lanemq.sdk._staged_producer by sdk/tools/generate_faces.py."""

from typing import final

from lanemq.wire.bodies import MessageQueue

from .. import _staged_producer as _core
from .._messages import Message
from ._bridge import Bridge


@final
class StagedSender:
    """Takes messages in the order of their stages; made by ``Producer.staged``."""

    def __init__(self, core: _core.StagedSender, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def number(self) -> int:
        """The number of messages taken so far."""
        return self._core.number

    @property
    def queue(self) -> MessageQueue | None:
        """The queue that all messages go to; None before the first."""
        return self._core.queue

    async def send(self, message: Message) -> str:
        """Send the next message; return its unique key once it is on its way.

        The first message of a stage waits until all of the stage before are stored; any waits
        while ``concurrency`` others are on their way. Whether a message arrived is known when
        its stage ends: at the first message of the next one, or at the end of the block.

        Raises ``StagedSendFailed`` there; then nothing more can be sent. Raises
        ``MessageRejected`` and ``InvalidName`` for a message that cannot be sent as it is; such
        a one is not counted.
        """
        return await self._bridge.call(self._core.send, message)

    async def wait(self) -> None:
        """Wait until everything taken so far is stored. Raises ``StagedSendFailed``."""
        await self._bridge.call(self._core.wait)
