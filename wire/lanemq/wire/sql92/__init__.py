"""Filters on message properties in the SQL92 of RocketMQ.

``compile_sql`` gives a ``Selector``; its ``matches`` says whether a message is wanted. The
language, its comparisons and even its oddities are those of the reference, so that a group
gets the same messages from either broker. Pure: no I/O, no clock.
"""

from ._errors import EvaluationError, SqlInvalid
from ._selector import Selector, compile_sql

__all__ = ["EvaluationError", "Selector", "SqlInvalid", "compile_sql"]
