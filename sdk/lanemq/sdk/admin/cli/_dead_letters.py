"""deadLetters and resendDeadLetters: commands that mqadmin does not have."""

import click

from lanemq.wire import LONG_MAX

from .._client import AdminClient
from .._dead_letters import dead_letters_of, resend_dead_letters
from ._found import body_of, message_value
from ._message import MOMENT
from .command._command import Output, command, fail
from .command._text import moment


@command("deadLetters")
@click.option("-g", "--groupName", "group", required=True, help="Consumer group name.")
@click.option("-b", "--beginTimestamp", "begin_ms", type=MOMENT, default=0, help="Died from then.")
@click.option(
    "-e", "--endTimestamp", "end_ms", type=MOMENT, default=LONG_MAX, help="Died up to then."
)
@click.option(
    "-m",
    "--maxNum",
    "max_count",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Dead letters at most.",
)
async def dead_letters(
    admin: AdminClient, out: Output, *, group: str, begin_ms: int, end_ms: int, max_count: int
) -> object:
    """List a group's dead letters, with the reasons."""
    found = await dead_letters_of(
        admin, group, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count
    )
    out.line(f"{'#Message ID':<32}  {'#Died':<23}  {'#Attempts':<9}  {'#Topic':<32}  #Reason")
    for letter in found:
        out.line(
            f"{letter.message_id:<32}  {moment(letter.message.store_timestamp_ms):<23}  "
            f"{letter.attempts:<9}  {letter.topic:<32}  {letter.reason or 'unknown'}"
        )
    return [
        message_value(letter.message, body_of(letter.message))
        | {"topic": letter.topic, "reason": letter.reason, "attempts": letter.attempts}
        for letter in found
    ]


@command("resendDeadLetters")
@click.option("-g", "--groupName", "group", required=True, help="Consumer group name.")
@click.option("-i", "--msgId", "message_ids", help="Message id, or several, by comma; else all.")
@click.option("-b", "--beginTimestamp", "begin_ms", type=MOMENT, default=0, help="Died from then.")
@click.option(
    "-e", "--endTimestamp", "end_ms", type=MOMENT, default=LONG_MAX, help="Died up to then."
)
async def resend(
    admin: AdminClient,
    out: Output,
    *,
    group: str,
    message_ids: str | None,
    begin_ms: int,
    end_ms: int,
) -> object:
    """Send a group's dead letters to it again."""
    wanted = None
    if message_ids is not None:
        wanted = {part.strip() for part in message_ids.split(",")} - {""}
    sent = await resend_dead_letters(
        admin, group, message_ids=wanted, begin_ms=begin_ms, end_ms=end_ms
    )
    missing = sorted((wanted or set()) - set(sent))
    if missing:
        fail(
            f"{len(sent)} dead letters were sent; these are not among those of {group!r}:"
            f" {', '.join(missing)}"
        )
    for sent_id in sent:
        out.line(f"sent again: {sent_id}")
    out.line(f"{len(sent)} dead letters were sent to group {group} again")
    return sent
