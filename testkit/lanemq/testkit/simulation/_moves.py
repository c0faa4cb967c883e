"""An operator who has queues moved from one broker to another behind proxies."""

from collections.abc import Sequence
from random import Random
from typing import Final, final

import trio

from lanemq.proxy.gateway.order import QueueOrder
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import open_admin
from lanemq.wire.bodies import MessageQueue

from ._network import Network
from ._proxy_process import ProxyProcess
from ._queue_lists import MOVING

HOST: Final = "10.0.9.251"
PATIENCE_S: Final = 60.0
ASK_S: Final = 5.0


@final
class Moves:
    """The moves of a run."""

    def __init__(self, network: Network, proxies: Sequence[ProxyProcess], rng: Random) -> None:
        self._network = network
        self._proxies = proxies
        self._rng = rng
        self.done = 0
        """Number of moves that came to their end."""
        self.drained = 0
        """Number of times that a broker came to stand in for another one."""
        self.refused: dict[str, int] = {}
        """Reasons why others did not, and how often."""

    def _place(self, index: int) -> str:
        """Return the broker at which a queue is now, as far as a proxy knows."""
        orders = self._proxies[0].running.orders
        order = None if orders is None else orders.of(MOVING)
        own = None if order is None else order.own_of(order.queues()[index])
        if order is None or own is None:
            return ""
        moved = order.moved_at(*own)
        return own[0] if moved is None else moved.last.broker

    async def move(self, brokers: Sequence[str], queues: int) -> None:
        """Have one queue moved, by one proxy or, where that does not answer, by the other."""
        index = self._rng.randrange(queues)
        broker = self._rng.choice([name for name in brokers if name != self._place(index)])
        dial = self._network.dialer(HOST)
        with trio.move_on_after(PATIENCE_S):
            async with open_admin(
                name_servers=self._proxies[0].address, dial=dial, timeout_s=ASK_S
            ) as admin:
                while True:
                    proxy = self._rng.choice(self._proxies)
                    try:
                        found = await admin.move_queue(proxy.address, MOVING, index, broker)
                    except LanemqError as error:
                        why = str(error)
                        self.refused[why] = self.refused.get(why, 0) + 1
                        await trio.sleep(self._rng.expovariate(1.0))
                        continue
                    if found.state == "moved":
                        self.done += 1
                        return

    async def drain(self, broker: str) -> None:
        """Have another broker stand in for one, by either proxy. The broker of the log stays."""
        dial = self._network.dialer(HOST)
        with trio.move_on_after(PATIENCE_S):
            async with open_admin(
                name_servers=self._proxies[0].address, dial=dial, timeout_s=ASK_S
            ) as admin:
                while True:
                    proxy = self._rng.choice(self._proxies)
                    try:
                        found = await admin.drain_at_proxy(proxy.address, broker)
                    except LanemqError as error:
                        why = str(error)
                        self.refused[why] = self.refused.get(why, 0) + 1
                        if "a log of proxies" in why:
                            return
                        await trio.sleep(self._rng.expovariate(1.0))
                        continue
                    if found.state != "draining":
                        self.drained += 1
                        return


def part_of(order: QueueOrder, queue: MessageQueue, offset: int) -> tuple[str, int, int]:
    """Return the broker, the queue there and the offset in it of a message, by its first queue."""
    moved = order.moved_at(queue.broker_name, queue.queue_id)
    if moved is None:
        return queue.broker_name, queue.queue_id, offset
    at = moved.part_at(offset)
    return *moved.parts[at].place, offset - moved.begins[at]
