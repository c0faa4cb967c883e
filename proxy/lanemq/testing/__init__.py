"""A server for tests of applications: name server and broker in this process, in memory.

``open_test_server`` is for blocks of any kind: ``with`` in threads, ``async with`` on trio and
asyncio; ``start`` and ``close`` do without one. pytest finds the fixture ``lanemq_server`` by
itself. See docs/testing.md.
"""

from lanemq.proxy.broker import ConfigError

from ._open import Opening, open_test_server
from ._server import ServerClosed, TestServer

__all__ = ["ConfigError", "Opening", "ServerClosed", "TestServer", "open_test_server"]
