"""The resources that a request of a 5.x user uses, each with the actions of which any one suffices.

lanemq asks for more than 5.3.3 at requests that are forgotten there: see docs/security.md.

Source: RocketMQ 5.3.3, DefaultAuthorizationContextBuilder, the annotations of request headers.
"""

from collections.abc import Callable, Mapping
from functools import cache

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.kv import KeySpan
from lanemq.wire.requests import Action, Kind, Touch

from .._touched import Reader, keeps_offsets, readers
from ._resources import Need, group_need, keys_need, progress_need, topic_need


@cache
def readers_at(cluster: str) -> Mapping[int, Reader[Need]]:
    """Return the readers of what requests to a broker of ``cluster`` need, by code; codes that
    are missing declare nothing, and users may not use them."""

    def need_of(touch: Touch, kind: Kind) -> Callable[[str], tuple[Need, ...]]:
        actions = touch.user
        if not actions:
            return lambda name: ()
        if kind is Kind.CLUSTER:
            whole = (Need(Kind.CLUSTER, cluster, frozenset(actions)),)
            return lambda name: whole
        if kind is Kind.GROUP:
            return lambda name: (group_need(name, *actions),)
        need = progress_need if keeps_offsets(touch) else topic_need

        def topic(name: str) -> tuple[Need, ...]:
            if Action.PUB in actions and name.startswith(RETRY_PREFIX):
                return (group_need(name, Action.SUB),)
            return (need(name, *actions),)

        return topic

    def need_of_keys(touch: Touch) -> Callable[[KeySpan], Need]:
        actions = frozenset(touch.user)
        return lambda span: keys_need(span, actions)

    return readers(need_of, need_of_keys)
