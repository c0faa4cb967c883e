"""Remarks of refusals by which tools know what to do.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor; the others are lanemq's own.
"""

from typing import Final

MIGRATION_IN_PROGRESS: Final = "migration in progress"
MAY_BE_KNOWN: Final = "may be known to clients"
"""Of a message queue whose last segment was sealed empty a moment ago."""
INDEX_CLAIMED: Final = "was given out already"
"""Of a logical index that another tool was quicker to claim."""
