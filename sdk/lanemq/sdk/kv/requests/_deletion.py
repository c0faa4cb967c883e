"""Deletion of a namespace: one write for each partition, which names what it means to delete."""

from functools import partial

from lanemq.wire.kv import OpType, WriteAnswer, decode_answer, encode_drop

from ..._errors import BrokerUnreachable, LanemqError, NoRoute, RequestTimedOut
from ._attempts import Attempts
from ._calls import KvCalls
from ._errors import KvRejected, NoNamespace
from ._route import find_route


async def delete_namespace(calls: KvCalls) -> None:
    """Delete a namespace; see ``KeyValueStore.delete_namespace``."""
    missing: list[NoNamespace] = []
    identities: set[str] = set()
    begun: set[int] = set()
    """Partitions that may be deleted by this call, though its answer was lost."""

    async def drop(partition: int, partitions: int, attempts: Attempts) -> bool:
        try:
            status = await calls.status_at(partition, partitions, attempts=attempts)
        except NoNamespace as error:  # it was deleted before, as far as that came
            missing.append(error)
            return False
        identities.add(status.identity)
        body = encode_drop(status.identity)
        begun.add(partition)
        try:
            found = await calls.write_at(
                partition, partitions, OpType.DROP, body, attempts=attempts
            )
        except NoNamespace:
            return True  # an earlier attempt has done it
        if not decode_answer(found, WriteAnswer).done:
            raise KvRejected(
                f"namespace {calls.namespace!r} is another one since it was looked at: it was "
                "deleted and created again"
            )
        return True

    dropped = await calls.each(drop)
    if not any(dropped) and not begun:
        raise missing[0]
    await _forgotten(calls, identities)
    calls.holders.reset()


async def _forgotten(calls: KvCalls, identities: set[str]) -> None:
    """Wait until name servers have learned of the deletion, so that the name is free again.

    The namespace is deleted anyway: after ``timeout_s`` they are not waited for any longer.
    """
    attempts = calls.attempts()
    while True:
        why: LanemqError = NoRoute(calls.namespace, "name servers list it still")
        try:
            search = partial(find_route, calls.holders.admin, calls.namespace)
            route = await attempts.look_up(search)
        except (BrokerUnreachable, NoRoute, RequestTimedOut) as error:
            why = error
        else:
            is_claimed = any(
                claim.here and claim.identity in identities for claim in route.claims.values()
            )
            if not is_claimed and (route.rivals or not route.names):
                return
        try:
            await attempts.pause(why)
        except LanemqError:
            return
