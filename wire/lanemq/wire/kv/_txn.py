"""Transactions: comparisons, then one of two lists of operations; all of it at one moment.

The body of the operation ``txn``, in a request and in the log. A broker without transactions
refuses that operation, so no part of one is ever passed over.
"""

import enum
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Self, final

import msgspec

from .._errors import RemoteProtocolError
from .._numbers import LONG_MAX
from ._answers import Entry, StepResult
from ._names import OPERATION_BYTES_MAX, STEPS_MAX
from ._operations import Action, OpType, Step, check_key, check_step


@final
class Target(enum.IntEnum):
    """The part of an entry that is compared."""

    VERSION = 0
    REVISION = 1
    """Number of the store's record that put the entry last, counted from 1 (``Entry.revision``)."""
    VALUE = 2
    EXISTS = 3
    """1 where there is an entry, 0 where there is none."""
    LEASE = 4
    """The number of the lease that the entry is under; 0 for none."""


@final
class Relation(enum.IntEnum):
    """The relation of what there is to what is given."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS = 2
    GREATER = 3


RELATIONS: Final = {
    "=": Relation.EQUAL,
    "!=": Relation.NOT_EQUAL,
    "<": Relation.LESS,
    ">": Relation.GREATER,
}


@final
class Compare(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A comparison of an entry. One that is missing has version and revision 0, and no value: a
    comparison of its value holds in no relation."""

    key: bytes
    target: Target
    relation: Relation
    operand: int | bytes
    """Bytes for ``VALUE``, a number for the others."""

    @classmethod
    def version(cls, key: bytes, relation: str, version: int) -> Self:
        """Compare the version; ``relation`` is one of ``=``, ``!=``, ``<`` and ``>``."""
        return cls(key, Target.VERSION, _relation(relation), version)

    @classmethod
    def revision(cls, key: bytes, relation: str, revision: int) -> Self:
        """Compare the revision (``Entry.revision``)."""
        return cls(key, Target.REVISION, _relation(relation), revision)

    @classmethod
    def lease(cls, key: bytes, relation: str, lease: int) -> Self:
        """Compare the number of the lease that the entry is under, 0 for none."""
        return cls(key, Target.LEASE, _relation(relation), lease)

    @classmethod
    def value(cls, key: bytes, relation: str, value: bytes) -> Self:
        """Compare the value, in the order of bytes."""
        return cls(key, Target.VALUE, _relation(relation), value)

    @classmethod
    def exists(cls, key: bytes) -> Self:
        """Hold if there is an entry."""
        return cls(key, Target.EXISTS, Relation.EQUAL, 1)

    @classmethod
    def missing(cls, key: bytes) -> Self:
        """Hold if there is no entry."""
        return cls(key, Target.EXISTS, Relation.EQUAL, 0)

    def holds(self, there: int | bytes) -> bool:
        """Return whether the relation holds for what is there, of the operand's type."""
        relation, operand = self.relation, self.operand
        if relation is Relation.EQUAL:
            return there == operand
        if relation is Relation.NOT_EQUAL:
            return there != operand
        assert isinstance(there, int) == isinstance(operand, int)
        less, more = (there, operand) if relation is Relation.LESS else (operand, there)
        return less < more  # type: ignore[operator] # both are of one type


@final
class OperationKind(enum.IntEnum):
    """The kind of an operation of a transaction."""

    PUT = 0
    DELETE = 1
    GET = 2


@final
class Operation(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """An operation of a transaction, about one key. It sees what those before it have done."""

    kind: OperationKind
    key: bytes
    value: bytes = b""
    ttl_ms: int = 0
    """Life of the entry in milliseconds, by the log's times; 0 is forever, and the negative of a
    lease's number is as long as that lease."""

    @classmethod
    def put(cls, key: bytes, value: bytes, *, ttl_ms: int = 0, lease: int = 0) -> Self:
        """Put a value: for ever, for ``ttl_ms``, or under the lease of a number."""
        return cls(OperationKind.PUT, key, value, -lease if lease else ttl_ms)

    @classmethod
    def delete(cls, key: bytes) -> Self:
        """Delete an entry, if there is one."""
        return cls(OperationKind.DELETE, key)

    @classmethod
    def get(cls, key: bytes) -> Self:
        """Read an entry."""
        return cls(OperationKind.GET, key)

    @property
    def step(self) -> Step:
        """The same as a step of a batch; that of a read does nothing."""
        action = _ACTIONS[self.kind]
        return Step(self.key, action, self.value, self.ttl_ms)


_ACTIONS: Final = {
    OperationKind.PUT: Action.PUT,
    OperationKind.DELETE: Action.DELETE,
    OperationKind.GET: Action.CHECK,
}


@final
class Txn(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A transaction: ``then`` is done if all comparisons hold, else ``otherwise``."""

    # Beyond their limits lists are refused before they are decoded.
    compares: Annotated[list[Compare], msgspec.Meta(max_length=STEPS_MAX)]
    then: Annotated[list[Operation], msgspec.Meta(max_length=STEPS_MAX)]
    otherwise: Annotated[list[Operation], msgspec.Meta(max_length=STEPS_MAX)]

    def keys(self) -> Iterator[bytes]:
        """Iterate over all keys, some perhaps several times."""
        for one in self.compares:
            yield one.key
        for operation in (*self.then, *self.otherwise):
            yield operation.key

    def check_count(self) -> None:
        """Check the number of comparisons and operations. Raises ``RemoteProtocolError``."""
        count = len(self.compares) + len(self.then) + len(self.otherwise)
        if not 0 < count <= STEPS_MAX:
            raise RemoteProtocolError(
                f"a transaction has 1 to {STEPS_MAX} comparisons and operations, not {count}"
            )

    @property
    def steps(self) -> list[Step]:
        """The operations of both lists, in the order in which changes number them."""
        return [operation.step for operation in (*self.then, *self.otherwise)]


@final
class OperationResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of one operation of a transaction."""

    version: int = 0
    """The version put, deleted or read; 0 where there was none."""
    entry: Entry | None = None
    """The entry that was read."""
    cut: bool = False
    """True if the answer lacks the value of the entry, which is long: read the key for it. An
    answer has a MiB of values; that to a repeated request, after a lost answer, 2 KiB."""


@final
class TxnAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a transaction; its first fields are those of a ``WriteAnswer``."""

    done: bool
    """True if all comparisons held, so that ``then`` was done, and not ``otherwise``."""
    position: int
    """Number of the transaction's record in the log of its partition, counted from 0."""
    steps: tuple[StepResult, ...] = ()
    """None: a transaction has operations instead."""
    value: bytes | None = None
    results: tuple[OperationResult, ...] = ()
    """One for each operation that was done, in order."""

    def without_values(self, *, keys: bool = True) -> "TxnAnswer":
        """Return the answer with all values that were read left out, and without ``keys`` their
        keys: they are empty, as those of no entry."""
        results = tuple(
            OperationResult(
                one.version,
                msgspec.structs.replace(one.entry, key=one.entry.key if keys else b"", value=b""),
                bool(one.entry.value),
            )
            if one.entry is not None
            else one
            for one in self.results
        )
        return TxnAnswer(self.done, self.position, results=results)

    def with_keys(self, operations: Sequence[Operation]) -> "TxnAnswer":
        """Return the answer with the keys that it lacks, which are those of the operations."""
        results = tuple(
            one
            if one.entry is None or one.entry.key
            else msgspec.structs.replace(
                one, entry=msgspec.structs.replace(one.entry, key=operation.key)
            )
            for one, operation in zip(self.results, operations, strict=True)
        )
        return TxnAnswer(self.done, self.position, results=results)


_ENCODER: Final = msgspec.msgpack.Encoder()
_TXN: Final = msgspec.msgpack.Decoder(Txn)


def encode_txn(txn: Txn) -> bytes:
    """Encode the body of a transaction."""
    return _ENCODER.encode(txn)


def decode_txn(body: bytes) -> Txn:
    """Decode and check a transaction. Raises ``RemoteProtocolError``."""
    if len(body) > OPERATION_BYTES_MAX:
        raise RemoteProtocolError(
            f"a transaction of {len(body)} bytes, at most {OPERATION_BYTES_MAX} are taken"
        )
    try:
        txn = _TXN.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the body of {OpType.TXN} cannot be read: {error}") from error
    check_txn(txn)
    return txn


def check_txn(txn: Txn) -> None:
    """Check the limits of a transaction. Raises ``RemoteProtocolError``."""
    txn.check_count()
    for one in txn.compares:
        check_key(one.key)
        if isinstance(one.operand, bytes) != (one.target is Target.VALUE):
            raise RemoteProtocolError("a value is compared with bytes, all else with a number")
        if isinstance(one.operand, int) and not 0 <= one.operand <= LONG_MAX:
            raise RemoteProtocolError(f"nothing of an entry can be compared with {one.operand}")
    for operations in (txn.then, txn.otherwise):
        _check_operations(operations)


def _check_operations(operations: Sequence[Operation]) -> None:
    written = set[bytes]()
    for one in operations:
        check_step(one.step)
        if one.kind is not OperationKind.GET:
            if one.key in written:
                raise RemoteProtocolError(
                    f"a list of operations writes the key {one.key[:40]!r} twice"
                )
            written.add(one.key)


def _relation(text: str) -> Relation:
    try:
        return RELATIONS[text]
    except KeyError:
        raise ValueError(f"there is no relation {text[:40]!r}; there are =, !=, < and >") from None
