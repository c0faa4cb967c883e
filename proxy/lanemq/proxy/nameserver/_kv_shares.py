"""The share of one address in the key-value configuration, which outlives its connections."""

from collections import Counter
from typing import final

from ..net.limits._quotas import HOST_SHARE, has_share
from ._kv import NAMESPACES_MAX, TOTAL_BYTES_MAX, KVConfig, entry_bytes, refused


@final
class KVShares:
    """The namespaces and bytes that each address has written since the start.

    An address gets more while a third of what it has is free: three quarters are the most. Used by
    one thread at a time, as the changes of the configuration.
    """

    def __init__(self, kv: KVConfig) -> None:
        self._kv = kv
        self._makers: dict[str, str] = {}
        self._writers: dict[tuple[str, str], tuple[str, int]] = {}
        self._bytes = Counter[str]()

    def put(self, host: str, namespace: str, key: str, value: str) -> None:
        """Set a key for a client at ``host``. Raises as ``KVConfig.put``, and ``Refused`` for what
        is beyond its share."""
        kv, size_bytes = self._kv, entry_bytes(key, value)
        is_new = not kv.namespace(namespace)
        held = Counter(self._makers.values())[host]
        if is_new and not has_share(held, NAMESPACES_MAX - kv.used, HOST_SHARE):
            raise refused(
                f"{host} has made {held} namespaces, its share of the {NAMESPACES_MAX} that there "
                "may be; delete the keys of one first"
            )
        _, before_bytes = self._writers.get((namespace, key), (host, 0))
        held_bytes = self._bytes[host] + size_bytes - before_bytes
        free_bytes = TOTAL_BYTES_MAX - kv.total_bytes
        if size_bytes > before_bytes and not has_share(held_bytes, free_bytes, HOST_SHARE):
            raise refused(
                f"{host} would have written {held_bytes} bytes, more than its share of the "
                f"{TOTAL_BYTES_MAX} that are kept; delete keys first"
            )
        kv.put(namespace, key, value)
        self._forget(namespace, key)
        self._writers[namespace, key] = host, size_bytes
        self._bytes[host] += size_bytes
        if is_new:
            self._makers[namespace] = host

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key, whoever wrote it. Raises as ``KVConfig.delete``."""
        self._kv.delete(namespace, key)
        self._forget(namespace, key)
        if not self._kv.namespace(namespace):
            self._makers.pop(namespace, None)

    def _forget(self, namespace: str, key: str) -> None:
        host, size_bytes = self._writers.pop((namespace, key), ("", 0))
        self._bytes[host] -= size_bytes
        if not self._bytes[host]:
            del self._bytes[host]
