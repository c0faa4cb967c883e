"""Requests for keys and values, and the keys that each touches.

A right to keys is one to a topic: ``%KV%NAMESPACE`` is all of them, and ``%KV%NAMESPACE/BEGIN*``
those that begin so (``lanemq.wire.kv._resources``). A condition of a write reads the key that it is
about, since its outcome, or the value in the answer, tells what is there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from .. import headers as h
from .._codes import RequestCode as Code
from ..kv import (
    DEFAULT_NAMESPACE,
    OF_LEASES,
    ONE_STEP,
    KeySpan,
    OpType,
    Step,
    any_key,
    checked_namespace,
    decode_key,
    decode_keys,
    decode_steps,
    decode_terms,
    decode_txn,
    keys_under,
    one_key,
)
from ..kv import Action as Does
from ._rights import Action, Kind, Right
from ._spec import BROKER, WHOLE, AnswerSize, BodyKind, Keys, RequestSpec, Touch

Fields = Mapping[str, str]
_ALL: Final = AnswerSize.ALL
_HAS_STEPS: Final = ONE_STEP | {OpType.BATCH}


def _namespace(fields: Fields) -> str:
    return checked_namespace(fields.get("namespace") or DEFAULT_NAMESPACE)


def _all(namespace: str) -> KeySpan:
    return keys_under(namespace, b"")


def _some(fields: Fields, body: bytes) -> Iterator[KeySpan]:
    namespace = fields.get("namespace")
    if namespace:
        yield any_key(checked_namespace(namespace))


def _named(fields: Fields, body: bytes) -> Iterator[KeySpan]:
    yield one_key(_namespace(fields), decode_key(fields.get("key", "")))


def _prefix(fields: Fields, body: bytes) -> Iterator[KeySpan]:
    yield keys_under(_namespace(fields), decode_key(fields.get("prefix", ""), "prefix"))


def _between(fields: Fields, body: bytes) -> Iterator[KeySpan]:
    end = fields.get("end")
    last = None if end is None else decode_key(end, "end") or None
    yield KeySpan(_namespace(fields), decode_key(fields.get("begin", ""), "begin"), last)


def _listed(fields: Fields, body: bytes) -> Iterable[KeySpan]:
    namespace = _namespace(fields)
    return [one_key(namespace, key) for key in decode_keys(body)] or [any_key(namespace)]


def _written(fields: Fields, body: bytes) -> Iterable[KeySpan]:
    """Find what a write changes: the keys of its steps or operations, or all. A namespace that it
    makes is touched as a whole. A lease is its account's, and takes a right to some key: only such
    keys are ever under it. A write that only compares and reads takes one as well, because its
    record is in the log of the namespace like any other."""
    namespace, op_type = _namespace(fields), fields.get("opType", "")
    if fields.get("createAt"):
        return [_all(namespace)]
    if op_type in OF_LEASES:
        is_whole = decode_terms(op_type, body).of_any
        return [_all(namespace) if is_whole else any_key(namespace)]
    if op_type == OpType.TXN:
        steps = decode_txn(body).steps
    elif op_type in _HAS_STEPS:
        steps = decode_steps(op_type, body)
    else:
        return [_all(namespace)]
    written = [one_key(namespace, step.key) for step in steps if step.action is not Does.CHECK]
    return written or [any_key(namespace)]


def _told(fields: Fields, body: bytes) -> Iterable[KeySpan]:
    """Find what the answer to a write tells of: the keys of its conditions and reads."""
    namespace, op_type = _namespace(fields), fields.get("opType", "")
    if op_type == OpType.TXN:
        txn = decode_txn(body)
        compared = [one.key for one in txn.compares]
        read = [step.key for step in txn.steps if _tells(step)]
        return [one_key(namespace, key) for key in (*compared, *read)]
    if op_type not in _HAS_STEPS:
        return []
    return [one_key(namespace, step.key) for step in decode_steps(op_type, body) if _tells(step)]


def _leases(fields: Fields, body: bytes) -> Iterator[KeySpan]:
    namespace = _namespace(fields)
    is_own = fields.get("ofAny") in (None, "", "false")
    yield any_key(namespace) if is_own else _all(namespace)


def _tells(step: Step) -> bool:
    is_bound = step.if_version is not None or step.if_value is not None
    return is_bound or step.action is Does.CHECK


def reads(what: str, read: Callable[[Fields, bytes], Iterable[KeySpan]]) -> Touch:
    """Return the touch of keys that are read."""
    return Touch(Kind.TOPIC, Keys(what, read), Right.READ, (Action.SUB,))


def writes(what: str, read: Callable[[Fields, bytes], Iterable[KeySpan]]) -> Touch:
    """Return the touch of keys that are written."""
    return Touch(Kind.TOPIC, Keys(what, read), Right.WRITE, (Action.PUB,))


_BETWEEN: Final = "the keys of `namespace` from `begin` up to `end`"
_UNDER: Final = "the keys of `namespace` under `prefix`"

KEYS: Final = (
    RequestSpec(
        Code.KV_WRITE,
        h.KvWrite,
        touches=(
            writes(
                "the keys of its steps and operations; any key of `namespace` if these write "
                "none, and for a lease of the account's own; or all keys of `namespace`",
                _written,
            ),
            reads("the keys of its conditions and reads", _told),
        ),
        ports=BROKER,
        answer_size=_ALL,
        body=BodyKind.LONG,
    ),
    RequestSpec(
        Code.KV_GET,
        h.KvGet,
        touches=(reads("`key` of `namespace`", _named),),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.KV_MULTI_GET,
        h.KvMultiGet,
        touches=(reads("the keys of `namespace` in the body", _listed),),
        ports=BROKER,
        answer_size=_ALL,
        body=BodyKind.LONG,
    ),
    RequestSpec(
        Code.KV_SCAN,
        h.KvScan,
        touches=(reads(_UNDER, _prefix),),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.KV_WATCH,
        h.KvWatch,
        touches=(reads(_UNDER, _prefix),),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.KV_STATUS,
        h.KvStatus,
        touches=(
            Touch(
                Kind.TOPIC,
                Keys("any key of `namespace`", _some, or_all="namespace"),
                Right.USE,
                (Action.SUB, Action.PUB, Action.GET),
            ),
        ),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.KV_RANGE,
        h.KvRange,
        touches=(reads(_BETWEEN, _between),),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.KV_FOLLOW,
        h.KvFollow,
        touches=(reads(_BETWEEN, _between),),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.KV_LEASES,
        h.KvLeases,
        touches=(
            reads(
                "any key of `namespace` for leases of the account's own, all keys with `ofAny`",
                _leases,
            ),
        ),
        ports=BROKER,
        answer_size=_ALL,
    ),
    # Between brokers: its rows have the results of all accounts' writes, and it may remake a state.
    RequestSpec(
        Code.KV_STATE,
        h.KvState,
        touches=(Touch(Kind.CLUSTER, WHOLE, Right.ADMIN, (Action.UPDATE,)),),
        ports=BROKER,
        answer_size=_ALL,
    ),
)
