"""The note about the part of the log that RocksDB has, which is kept with the watermarks."""

from typing import final

import msgspec


@final
class RocksCover(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The part of the log that RocksDB has durably. Positions count bytes of the log."""

    identity: str
    """The id of the database, from its file ``IDENTITY``: another database starts again."""
    begin: int
    """Position before which records may be missing."""
    end: int
    """The watermark: position up to which all records from ``begin`` on are in it."""
    filled: int = 0
    """Position, before ``begin``, up to which older records are in it as well."""
