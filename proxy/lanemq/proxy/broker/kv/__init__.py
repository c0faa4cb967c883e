"""Requests for keys and values: writes through the log, reads, watches."""

from ._register import KvRequests, register

__all__ = ["KvRequests", "register"]
