"""Logical indices are claimed at the brokers of a topic before queues get them.

An index is claimed for a broker. One whose queue never came to be, because the tool died, is given
to the same broker again: it alone can say that it has none. Any other index is a new one. Most of
the brokers that ever had a part of the topic have to answer: two majorities have one in common.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

from lanemq.wire import ResponseCode
from lanemq.wire.logical import INDEX_CLAIMED, ClaimedLogicalIndices, ClaimLogicalIndices

from ..._errors import LanemqError, RefusedByBroker
from ._plan import MapQueue, OpenSegment, SealSegment
from ._view import ClusterTopic

Ask = Callable[[str, ClaimLogicalIndices], Awaitable[ClaimedLogicalIndices]]
"""Asks a broker by its address: ``AdminClient.claim_indices``."""

ATTEMPTS = 5
"""Number of tries: another tool that claims at the same time can be quicker a few times."""


class IndicesUnknown(LanemqError):  # noqa: N818 - says what happened
    """Too few brokers of a topic answer to know which indices were given out."""


@final
@dataclass(frozen=True, slots=True)
class Claims:
    """The claims on a topic's indices that the answering brokers know."""

    owners: Mapping[int, frozenset[str]]
    """Index -> the brokers it was given to; more than one where a claim was interrupted."""
    brokers: frozenset[str]
    """All brokers that ever had a part of the topic."""
    deletions: int = 0
    """Times the topic was deleted before; one that was deleted at a single broker was not."""


def choose(claims: Claims, view: ClusterTopic, wanted: Sequence[str]) -> list[int]:
    """Return an index for each broker in ``wanted``, in their order. Pure."""
    chains = view.chains()
    unused: dict[str, list[int]] = {}
    for index, owners in sorted(claims.owners.items()):
        if len(owners) == 1 and not len(chains.get(index) or ()):
            unused.setdefault(next(iter(owners)), []).append(index)
    following = max((*claims.owners, *chains), default=-1) + 1
    found = []
    for broker in wanted:
        if unused.get(broker):
            found.append(unused[broker].pop(0))
        else:
            found.append(following)
            following += 1
    return found


StepT = TypeVar("StepT", bound=MapQueue | OpenSegment | SealSegment)


async def claimed_steps(ask: Ask, view: ClusterTopic, steps: Sequence[StepT]) -> list[StepT]:
    """Return a plan's steps; those that make logical queues have indices that are claimed.

    Errors as ``claim_indices``.
    """
    chains = view.chains()
    fresh = [s for s in steps if not isinstance(s, SealSegment) and s.index not in chains]
    if not fresh:
        return list(steps)
    indices = iter(await claim_indices(ask, view, [step.broker for step in fresh]))
    return [replace(s, index=next(indices)) if s in fresh else s for s in steps]


async def claim_indices(ask: Ask, view: ClusterTopic, wanted: Sequence[str]) -> list[int]:
    """Claim an index for each broker in ``wanted``, in their order.

    Raises ``IndicesUnknown``, and whatever stops a claim; then none of them may be used.
    """
    for attempt in range(ATTEMPTS):
        known = await _known(ask, view)
        indices = choose(known, view, wanted)
        try:
            await _claim(ask, view, dict(zip(indices, wanted, strict=True)), known)
        except RefusedByBroker as error:
            if INDEX_CLAIMED not in (error.remark or "") or attempt == ATTEMPTS - 1:
                raise
        else:
            return indices
    raise AssertionError("the last attempt returns or raises")


async def _known(ask: Ask, view: ClusterTopic) -> Claims:
    owners: dict[int, set[str]] = {}
    brokers = {broker.name for broker in view.brokers if broker.queues}
    alive: list[int] = []
    deleted = [0]
    for broker in view.brokers:
        if broker.queues:
            said = await _ask(ask, broker.address, ClaimLogicalIndices(view.topic))
            (alive if said.claims else deleted).append(said.deletions)
            brokers |= set(said.brokers) if said.claims else set()
            for index, owner in said.claims.items():
                owners.setdefault(index, set()).add(owner)
    here = {broker.name for broker in view.brokers}
    if 2 * len(brokers & here) <= len(brokers):
        away = ", ".join(sorted(brokers - here))
        raise IndicesUnknown(
            f"{view.topic} had a part at {away}, which {'are' if ',' in away else 'is'} not there: "
            "they may know of logical queues that nobody else does; start them first"
        )
    return Claims(
        {i: frozenset(names) for i, names in owners.items()},
        frozenset(brokers),
        max(alive or deleted),
    )


async def _claim(ask: Ask, view: ClusterTopic, claims: Mapping[int, str], known: Claims) -> None:
    here = {broker.name for broker in view.brokers if broker.queues} | set(claims.values())
    reported = {segment.broker_name for segment in view.reported}
    brokers = tuple(sorted(here | (known.brokers & reported)))
    asked = ClaimLogicalIndices(view.topic, claims, brokers, known.deletions)
    # In a fixed order: of two tools at once, the first broker decides.
    for broker in sorted(view.brokers, key=lambda broker: broker.name):
        if broker.queues:
            await _ask(ask, broker.address, asked)


async def _ask(ask: Ask, address: str, asked: ClaimLogicalIndices) -> ClaimedLogicalIndices:
    try:
        return await ask(address, asked)
    except RefusedByBroker as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return ClaimedLogicalIndices()  # it keeps none
        raise
