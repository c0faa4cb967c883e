"""The command line adds to an error of the library the command that helps."""

import pytest

from lanemq.local.cli import advised
from lanemq.sdk import LanemqError, NoRoute, RequestTimedOut, WrongUse
from lanemq.sdk.admin._dead_letters import DeadLettersUnreadable
from lanemq.sdk.admin.cli.command._command import ADVICE as OF_ADMIN
from lanemq.sdk.kv import KvStateLost, NamespaceSplit, NoNamespace
from lanemq.sdk.kv.cli._command import ADVICE as OF_KV


@pytest.mark.parametrize(
    ("error", "advice", "end"),
    [
        (NoRoute("T", "it is gone"), OF_ADMIN, "gone. `lanemq admin topicList` shows the topics"),
        (RequestTimedOut("b:1", 10, 5), OF_ADMIN, "within 5 s. --timeout allows it more time"),
        (
            DeadLettersUnreadable("%DLQ%{g}"),
            OF_ADMIN,
            "6 first. `lanemq admin updateTopic -t '%DLQ%{g}' -p 6` does",
        ),
        (WrongUse("no"), OF_ADMIN, "no"),
        (NoNamespace("n", "gone"), OF_KV, "gone. `lanemq kv create --namespace n --broker NAME`"),
        (
            NamespaceSplit("n", (("a", "b"), ("c",))),
            OF_KV,
            "and `lanemq kv delete --namespace n --broker c` removes it",
        ),
        (KvStateLost("lost"), OF_KV, "lost. `lanemq kv import --replace FILE` imports a snapshot"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, LanemqError) else "",
)
def test_the_advice_for_an_error(
    error: LanemqError, advice: dict[type[Exception], str], end: str
) -> None:
    text = advised(error, advice)
    assert text.startswith(str(error))
    assert end in text
    assert "lanemq " not in str(error)
