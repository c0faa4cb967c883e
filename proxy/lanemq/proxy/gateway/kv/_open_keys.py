"""The partitions of keys that a proxy has open, as reads and writes find them."""

from typing import final

import trio

from lanemq.storage.kv import KvLog, KvState
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.kv import Moved, encode_answer, parse_partition

from ...sessions.keys._checks import check_place
from ...sessions.keys._remarks import DELETED, IMPORTING
from ._keys import UpstreamKeys
from ._log import PartitionLog
from ._namespaces import KeyNamespaces


@final
class OpenKeys:
    """The partitions of a proxy as reads see them; see ``Readable``."""

    def __init__(self, namespaces: KeyNamespaces) -> None:
        self._namespaces = namespaces

    def find(self, namespace: str, partition: int, partitions: int) -> KvState:
        """Return the state of a partition. Raises ``Refused``."""
        state = self.log_of(namespace, partition, partitions).state
        if state.meta.importing:
            raise Refused(ResponseCode.SYSTEM_BUSY, IMPORTING.format(namespace))
        return state

    def log_of(self, namespace: str, partition: int, partitions: int) -> PartitionLog:
        """Return a partition that takes requests. Raises ``Refused``."""
        keys = self._namespaces.opened.get(namespace)
        if keys is None:
            remark = f"namespace {namespace} of keys is not open yet"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        log = partition_of_keys(keys, namespace, partition, partitions)
        if not log.follower.opened.is_set():
            raise not_yet(log)
        if log.state.meta.deleted:
            raise Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, DELETED.format(namespace))
        return log

    def log(self, namespace: str, partition: int) -> KvLog:
        """Return the latest records of a partition."""
        return self._namespaces.opened[namespace].logs[partition].follower.kept.recent

    def now_ms(self, name: str) -> int:
        """Return the time that the log of an open partition has now."""
        namespace, number = parse_partition(name)
        kept = self._namespaces.opened[namespace].logs[number].follower.kept
        is_known = kept.time.is_known
        return kept.time.now_ms(trio.current_time()) if is_known else kept.state.meta.clock_ms

    def unreadable(self, namespace: str, partition: int, error: OSError) -> Refused:
        """Return the refusal for an error of the disk, of which there is none here."""
        return Refused(ResponseCode.SYSTEM_ERROR, str(error))


def partition_of_keys(
    keys: UpstreamKeys, namespace: str, partition: int, partitions: int
) -> PartitionLog:
    """Return a partition. Raises ``Refused``: KV_MOVED where there is another number of them, and
    at once where its log is missed, since to wait would not help."""
    check_place(partition, partitions)
    if partitions != len(keys.logs):
        remark = f"namespace {namespace} has {len(keys.logs)} partitions, and not {partitions}"
        raise Refused(ResponseCode.KV_MOVED, remark, encode_answer(Moved(len(keys.logs))))
    log = keys.logs[partition]
    if log.follower.is_missed:
        raise not_yet(log)
    return log


def not_yet(log: PartitionLog) -> Refused:
    """Return the refusal while a log cannot be read."""
    why = log.follower.why or "its broker has not answered"
    remark = f"keys {log.name} are not open yet ({why}); try again soon"
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
