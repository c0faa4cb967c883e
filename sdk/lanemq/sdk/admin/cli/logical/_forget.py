"""The command forgetBroker, which only lanemq has: drops a broker that will not come back."""

import click

from ..._client import AdminClient
from ..command._command import Output, command, fail


@command("forgetBroker")
@click.option("-b", "--brokerName", "broker", required=True, help="Name of a broker that is gone.")
async def forget_broker(admin: AdminClient, out: Output, *, broker: str) -> object:
    """Have name servers forget a broker's part of logical queues: it will not come back."""
    broker = broker.strip()
    if broker in (await admin.cluster()).broker_addr_table:
        fail(f"broker {broker!r} is registered: `drainBroker -b {broker}`, and switch it off first")
    await admin.forget_broker(broker)
    out.line(f"{broker} is forgotten: queues are shown without what was on it")
    return {"broker": broker}
