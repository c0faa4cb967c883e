"""The RocksDB binding of a store: databases, their options and their lock.

Needs the package ``rocksdict``, which comes with ``lanemq[server]``.
"""

from ._database import QueueDatabase
from ._files import is_present, keep_files, move_aside, remove_files

__all__ = ["QueueDatabase", "is_present", "keep_files", "move_aside", "remove_files"]
