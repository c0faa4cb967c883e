"""Requests that are almost right, at real servers: ``make fuzz``.

Every code with one bad field or member, every body, sequences, half frames. Nothing of it may
end a server, take its memory or its time from others, show in its log as a traceback, or leave
anything outside of its directories. At brokers with accounts nothing of it may get at what is not
its sender's, whatever optional fields it has or lacks.
"""

from ._run import Findings, run

__all__ = ["Findings", "run"]
