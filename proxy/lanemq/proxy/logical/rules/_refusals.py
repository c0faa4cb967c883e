"""Refusals of changes to logical queues, in the words that tools of 5.0.0-PREVIEW expect.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor.
"""

from typing import Final

from lanemq.wire import Refused, ResponseCode

NOT_ENABLED: Final = "topic not enable logical queue"


def refusal(remark: str) -> Refused:
    """Make a refusal with the code SYSTEM_ERROR, which tools expect together with its remark."""
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
