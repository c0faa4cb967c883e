"""Comparison with a value that, together with the new one, is longer than an operation may be."""

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvGet
from lanemq.wire.kv import (
    OpType,
    Step,
    StepResult,
    WriteAnswer,
    decode_entry,
    encode_key,
    encode_steps,
)

from ._calls import KvCalls


async def compare_long(calls: KvCalls, step: Step) -> WriteAnswer:
    """Do a step if its conditions hold: by the version that has the value it expects.

    No version comes again, so an entry of that version has that value. Where the version has
    changed meanwhile, the value is looked at again. Raises as ``KvCalls.write``.
    """
    header = KvGet(key=encode_key(step.key), namespace=calls.namespace)
    while True:
        entry = decode_entry(await calls.ask(step.key, RequestCode.KV_GET, header))
        version, value = (0, None) if entry is None else (entry.version, entry.value)
        if value != step.if_value or step.if_version not in (None, version):
            return WriteAnswer(False, -1, (StepResult(version, holds=False),), value)
        asked = msgspec.structs.replace(step, if_version=version, if_value=None)
        answer = await calls.write(step.key, OpType.CAS, encode_steps([asked]))
        if answer.done:
            return answer
