"""JSON in fastjson's dialect: ``loads`` and ``dumps``."""

from ._fastjson import loads
from ._fastjson_writer import dumps

__all__ = ["dumps", "loads"]
