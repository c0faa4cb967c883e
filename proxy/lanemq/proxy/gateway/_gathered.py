"""The answers of several brokers to parts of one request, made one answer. All pure."""

from collections.abc import Sequence
from typing import Final, final

from msgspec.structs import replace

from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatchResult, MessageQueue
from lanemq.wire.frame import Frame

GATHERED_MAX: Final = 1000
"""Most requests of a client that wait for the answers of several brokers."""
ANSWER_S: Final = 0.7
"""Seconds that they wait: clients give locks one second, and would lose those that are granted."""
LATE: Final = "a broker that has some of the queues does not answer"


@final
class Gathered:
    """The answers to the parts of a request to lock queues, or to unlock them."""

    def __init__(self, frame: Frame, parts: int, until_s: float) -> None:
        self.until_s = until_s
        """The time at which the client is answered, whoever has not answered then."""
        self._code = frame.code
        self._parts = parts
        self._refusal = frame.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=LATE)
        self._answers: list[Frame] = []
        self.charged_bytes = 0
        """The bytes of the answers that have come."""

    def take(self, answer: Frame) -> Frame | None:
        """Take the answer of a broker; returns the answer for the client once it is the last."""
        self._answers.append(answer)
        self.charged_bytes += len(answer.body)
        return _merged(self._code, self._answers) if len(self._answers) >= self._parts else None

    def late(self) -> Frame:
        """Return the answer for the client without those that have not come."""
        return _merged(self._code, [*self._answers, self._refusal])


def _merged(code: int, answers: Sequence[Frame]) -> Frame:
    """Return the locks that brokers have granted; what a broker has refused is not locked.

    An unlock is refused if a broker refuses it, a lock if all do.
    """
    good = [one for one in answers if one.code == ResponseCode.SUCCESS]
    if not good:
        return answers[0]
    if code != RequestCode.LOCK_BATCH_MQ:
        return next((one for one in answers if one.code != ResponseCode.SUCCESS), good[0])
    locked: list[MessageQueue] = []
    for one in good:
        try:
            locked += LockBatchResult.decode(one.body).lock_ok_mq_set
        except RemoteProtocolError:
            continue  # the client asks again for what is not in the answer
    return replace(good[0], body=LockBatchResult(tuple(locked)).encode())
