"""The table of all request codes that are declared.

Source of the headers: RocketMQ 4.9.8 and 5.3.3, MQClientAPIImpl and the processors.
"""

from collections.abc import Mapping
from typing import Final

from ._foreign import FOREIGN
from ._groups import GROUPS
from ._keys import KEYS
from ._messages import MESSAGES
from ._nameserver import ROUTES
from ._spec import AnswerSize, RequestSpec
from ._topics import OPERATIONS


def _table(*parts: tuple[RequestSpec, ...]) -> dict[int, RequestSpec]:
    specs = sorted((spec for part in parts for spec in part), key=lambda spec: spec.code)
    table = {int(spec.code): spec for spec in specs}
    assert len(table) == len(specs), "a code is declared twice"
    return table


REQUESTS: Final[Mapping[int, RequestSpec]] = _table(
    MESSAGES, GROUPS, OPERATIONS, KEYS, ROUTES, FOREIGN
)
"""Code -> everything about it; a code that is missing here has no header, and no server of it."""


def longest_answer(code: int) -> int:
    """Return the length in bytes of the longest body of an answer to a request of ``code``."""
    spec = REQUESTS.get(code)
    return (AnswerSize.ALL if spec is None else spec.answer_size).value
