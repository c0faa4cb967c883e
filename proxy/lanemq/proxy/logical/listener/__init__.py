"""The logical listener: logical queues for clients that know nothing of them."""

from ._listener import LogicalListener

__all__ = ["LogicalListener"]
