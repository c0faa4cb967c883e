"""Writes the table of rights in docs/security.md, from the declarations of requests.

``python tools/write_rights.py`` writes it; with ``--check`` the exit status is 1 where the page
has another one.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from lanemq.wire.requests import (
    REQUESTS,
    Absent,
    Field,
    Found,
    InBody,
    Keys,
    Kind,
    Port,
    RequestSpec,
    Right,
    Touch,
)

PAGE: Final = Path(__file__).parent.parent / "docs" / "security.md"
BEGIN: Final = "<!-- The table is written by tools/write_rights.py: do not change it here. -->\n"
END: Final = "<!-- The end of the table. -->\n"
HEAD: Final = "| request | 4.x account | 5.x policies |\n|---|---|---|\n"
ADMINISTRATOR: Final = Right.ADMIN.value


def table() -> str:
    """Return the table: a row for each request that accounts are checked for."""
    checked = (spec for spec in REQUESTS.values() if {Port.BROKER, Port.LISTENER} & {*spec.ports})
    return HEAD + "".join(map(row, checked))


def row(spec: RequestSpec) -> str:
    """Return the row of a request."""
    return f"| {spec.code.name} ({spec.code:d}) | {of_account(spec)} | {of_user(spec)} |\n"


def of_account(spec: RequestSpec) -> str:
    """Return the rights that a 4.x account needs."""

    def right(touch: Touch) -> str:
        if touch.account is Right.ADMIN:
            return ADMINISTRATOR
        return "" if touch.account is Right.NONE else touch.account.value

    return cell(spec.touches, right, who="an account")


def of_user(spec: RequestSpec) -> str:
    """Return the actions that the policies of a 5.x user have to allow."""

    def right(touch: Touch) -> str:
        return " or ".join(f"`{action}`" for action in touch.user)

    return cell(spec.touches, right, who="a user")


def cell(touches: Iterable[Touch], right: Callable[[Touch], str], *, who: str) -> str:
    """Return the text for one kind of accounts: each right, and the objects it is needed on."""
    objects: dict[str, list[str]] = {}
    notes: list[str] = []
    for touch in touches:
        needed, source = right(touch), touch.source
        if needed == ADMINISTRATOR:
            objects.setdefault(needed, [])
        elif needed:
            objects.setdefault(needed, []).append(object_of(touch))
        elif isinstance(source, Field):
            notes.append(f"none on {object_of(touch)}: {touch.reason}")
        else:
            notes.append(f"{who} alone: {touch.reason}")
        if isinstance(source, Field) and source.absent is Absent.EVERYTHING:
            whole = ADMINISTRATOR if who == "an account" else f"{needed} on the cluster"
            notes.append(f"without `{source.name}`: {whole}")
        if isinstance(source, Keys) and source.or_all:
            whole = ADMINISTRATOR if who == "an account" else f"{needed} on the cluster"
            notes.append(f"without `{source.or_all}`: {whole}")
        if isinstance(source, Field) and source.spared:
            notes.append(f"none if the name ends with `{source.spared}`: {touch.reason}")
    parts = [
        f"{needed} on {', '.join(named)}" if named else needed for needed, named in objects.items()
    ]
    return "; ".join([*parts, *notes])


def object_of(touch: Touch) -> str:
    """Return the words for an object and the place of its name."""
    source = touch.source
    kind = "group" if touch.kind is Kind.GROUP else "topic"
    if isinstance(source, Field):
        name = f"`{source.prefix}`+`{source.name}`" if source.prefix else f"`{source.name}`"
        some = f"each {kind} of {name}" if source.separator else f"{kind} {name}"
        return f"{some} (if named)" if source.absent is Absent.NOTHING else some
    if isinstance(source, InBody | Keys | Found):
        return source.what
    return "the cluster"


def page_with_table(text: str) -> str:
    """Return the page with the present table in place of the one it has."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no place for the table: put back the two comments")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    """Write the table, or compare it."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = page_with_table(text)
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print(f"{PAGE.name}: the table of rights is old; run python tools/write_rights.py")
        sys.exit(text != wanted)
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
