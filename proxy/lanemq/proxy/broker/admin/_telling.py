"""The check whether a long answer may tell its sender of an object."""

from ...acl import Rights, Touched
from ...net._long_answer import LOOKED_AT, LongAnswer


async def may_tell(answer: LongAnswer, rights: Rights, touched: Touched) -> bool:
    """Return whether a sender may touch an object that an answer is to tell of; many policies take
    a while to decide that."""
    if rights.are_limited:
        await answer.look(8 * LOOKED_AT)
    return rights.may(touched)
