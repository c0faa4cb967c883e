"""The parts of a store that make it durable, for tests that watch when they do."""

from lanemq.storage.log._flusher import Flusher
from lanemq.storage.tasks._housekeeping import Housekeeping

__all__ = ["Flusher", "Housekeeping"]
