"""Steps of an operator's commands, for tests that take one of them by itself."""

from lanemq.sdk.admin import AdminClient
from lanemq.sdk.admin._logical_progress import Carried, carry_progress
from lanemq.sdk.admin._remains import Remainder, remainders
from lanemq.sdk.admin.logical._indices import IndicesUnknown, claim_indices
from lanemq.sdk.admin.logical._survey import survey, survey_all

__all__ = [
    "IndicesUnknown",
    "Remainder",
    "carry_progress_from",
    "claim_indices",
    "remainders_at",
    "survey",
]


async def carry_progress_from(admin: AdminClient, broker: str) -> Carried:
    """Make sure that no group's progress in any logical queue is at ``broker`` alone."""
    found = await survey_all(admin)
    return await carry_progress(admin, found.chains(), broker, found.brokers)


async def remainders_at(admin: AdminClient, broker: str) -> list[Remainder]:
    """Find the kinds of things that are still on ``broker``."""
    found = await survey_all(admin)
    return await remainders(admin, found.chains(), broker, found.brokers)
