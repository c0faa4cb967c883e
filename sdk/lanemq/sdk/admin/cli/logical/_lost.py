"""The command passLostMessages, which only lanemq has."""

from typing import Final

import click

from lanemq.wire.bodies import LostMessages

from ..._client import AdminClient
from ..command._command import Output, command, fail
from ._proxy_drain import find_proxy

LOOKING: Final = "looking"
COLUMNS: Final = "{:<48} {:<14} {:<8} {:<20} {}"


@command("passLostMessages")
@click.option("-b", "--brokerName", "broker", required=True, help="Name of the broker.")
@click.option("--apply", "applies", is_flag=True, help="Do it; without, they are only shown.")
async def pass_lost_messages(
    admin: AdminClient, out: Output, *, broker: str, applies: bool
) -> object:
    """Have readers go on behind what a broker has lost before the ends of moved queues.

    At a proxy with --moves.
    """
    broker = broker.strip()
    if await find_proxy(admin) is None:
        fail("this is no proxy with --moves: brokers tell of what they have lost themselves")
    found = await _asked(admin, out, broker, applies=applies)
    if not found.parts:
        out.line(f"{broker} has all that is before the ends of queues")
    else:
        out.line(COLUMNS.format("#Topic", "#LogicalQueue", "#QueueId", "#Lost", "#Count"))
    for part in found.parts:
        lost = f"{part.begin}-{part.end - 1}"
        columns = part.topic[:48], part.index, part.queue_id, lost, part.end - part.begin
        out.line(COLUMNS.format(*columns))
    if found.parts and applies:
        out.line("readers go on behind them")
    elif found.parts:
        out.line("readers wait there until the broker has them again; --apply has them go on")
    return found.to_json()


async def _asked(admin: AdminClient, out: Output, broker: str, *, applies: bool) -> LostMessages:
    before = ""
    while True:
        found = await admin.lost_at_proxy(admin.name_servers[0], broker, passes=applies)
        if found.state != LOOKING:
            return found
        if found.what != before:
            out.line(found.what)
            before = found.what
