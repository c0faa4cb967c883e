"""The commands of a pull consumer: one request at a time, of one queue."""

from lanemq.sdk import LitePullOptions, MessageQueue
from lanemq.sdk.pull import Puller, open_puller

from ..clients._messages import Pulled
from ._session import Command, Session
from ._shapes import CALL_S, Arguments, client_options, delivered


async def _open_puller(session: Session, arguments: Arguments) -> object:
    address, group = arguments["name_server"], arguments["group"]
    options = LitePullOptions(auto_commit=False, client=client_options(arguments))
    await session.open(arguments["name"], open_puller(group, name_servers=address, options=options))
    return True


async def _queues(session: Session, arguments: Arguments) -> object:
    puller: Puller = session.get(arguments["puller"])
    return sorted(q.queue_id for q in await puller.queues_of(arguments["topic"]))


async def _queue(session: Session, arguments: Arguments) -> tuple[Puller, MessageQueue]:
    puller: Puller = session.get(arguments["puller"])
    queues = await puller.queues_of(arguments["topic"])
    return puller, next(queue for queue in queues if queue.queue_id == arguments["queue_id"])


async def _pull(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    pulled = await puller.pull(
        queue,
        arguments["queue_offset"],
        tags=arguments["tags"],
        max_count=arguments["max_count"],
        timeout_s=CALL_S,
    )
    return Pulled(
        status=pulled.status.value,
        next_offset=pulled.next_offset,
        min_offset=await puller.min_offset(queue),
        max_offset=await puller.max_offset(queue),
        messages=[delivered(message) for message in pulled.messages],
    )


async def _min_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.min_offset(queue)


async def _max_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.max_offset(queue)


async def _search_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.offset_at(queue, arguments["timestamp_ms"])


async def _commit_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    await puller.commit(queue, arguments["queue_offset"])
    return True


async def _committed_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    committed = await puller.committed(queue)
    return -1 if committed is None else committed


COMMANDS: dict[str, Command] = {
    "open_puller": _open_puller,
    "queues": _queues,
    "pull": _pull,
    "min_offset": _min_offset,
    "max_offset": _max_offset,
    "search_offset": _search_offset,
    "commit_offset": _commit_offset,
    "committed_offset": _committed_offset,
}
