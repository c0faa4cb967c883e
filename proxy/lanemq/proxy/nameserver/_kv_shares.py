"""The share of one address in the key-value configuration, which outlives its connections."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import final

from attrs import define

from lanemq.wire import Refused
from lanemq.wire.kv import CLAIMS_NAMESPACE, claim_key, parse_claims

from ..net.limits._quotas import HOST_SHARE, has_share
from ._kv import KVConfig
from ._kv_draft import NAMESPACES_MAX, TOTAL_BYTES_MAX, KVDraft, entry_bytes, refused


@final
@define(eq=False)
class Change:
    """A change that somebody waits for; ``error`` is why it was not made."""

    make: Callable[[KVDraft], None]
    is_done: bool = False
    error: Exception | None = None


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

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes in their order, and write the table once for all of them.

        One that is refused leaves the others as they are; where nothing can be written, none of
        them is made.
        """
        before = self._makers.copy(), self._writers.copy(), self._bytes.copy()
        try:
            draft = self._kv.draft()
            for one in changes:
                try:
                    one.make(draft)
                except Refused as error:
                    one.error = error
            self._kv.write(draft)
        except Exception as error:  # belongs to those that wait, a bug of ours as well
            self._makers, self._writers, self._bytes = before
            for one in changes:
                one.error = one.error or error
        for one in changes:
            one.is_done = True

    def put(self, draft: KVDraft, host: str, namespace: str, key: str, value: str) -> None:
        """Set a key for a client at ``host``. Raises ``Refused`` as ``KVDraft.put``, and for what
        is beyond its share."""
        size_bytes = entry_bytes(key, value)
        is_new = not draft.entries(namespace)
        if is_new:
            held = list(self._makers.values()).count(host)
            if not has_share(held, NAMESPACES_MAX - draft.used, HOST_SHARE):
                raise refused(
                    f"{host} has made {held} namespaces, its share of the {NAMESPACES_MAX} that "
                    "there may be; delete the keys of one first"
                )
        _, before_bytes = self._writers.get((namespace, key), (host, 0))
        held_bytes = self._bytes[host] + size_bytes - before_bytes
        free_bytes = TOTAL_BYTES_MAX - draft.total_bytes
        if size_bytes > before_bytes and not has_share(held_bytes, free_bytes, HOST_SHARE):
            raise refused(
                f"{host} would have written {held_bytes} bytes, more than its share of the "
                f"{TOTAL_BYTES_MAX} that are kept; delete keys first"
            )
        draft.put(namespace, key, value)
        self._forget(namespace, key)
        self._writers[namespace, key] = host, size_bytes
        self._bytes[host] += size_bytes
        if is_new:
            self._makers[namespace] = host

    def delete(self, draft: KVDraft, namespace: str, key: str) -> None:
        """Remove a key, whoever wrote it."""
        draft.delete(namespace, key)
        self._forget(namespace, key)
        if not draft.entries(namespace):
            self._makers.pop(namespace, None)

    def delete_claims(self, draft: KVDraft, broker_name: str) -> None:
        """Remove the claims of a broker to namespaces of keys."""
        for namespace, broker in parse_claims(dict(draft.entries(CLAIMS_NAMESPACE))):
            if broker == broker_name:
                self.delete(draft, CLAIMS_NAMESPACE, claim_key(namespace, broker))

    def _forget(self, namespace: str, key: str) -> None:
        host, size_bytes = self._writers.pop((namespace, key), ("", 0))
        self._bytes[host] -= size_bytes
        if not self._bytes[host]:
            del self._bytes[host]
