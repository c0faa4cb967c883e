"""Requests that no server here serves: those from brokers to clients, and those of 5.x alone."""

from typing import Final

from .. import headers as h
from .._codes import RequestCode as Code
from ._spec import AnswerSize, RequestSpec

TO_CLIENTS: Final = (
    RequestSpec(Code.CHECK_TRANSACTION_STATE, h.CheckTransactionState),
    RequestSpec(Code.NOTIFY_CONSUMER_IDS_CHANGED, h.NotifyConsumerIdsChanged),
    RequestSpec(Code.RESET_CONSUMER_CLIENT_OFFSET, h.ResetOffset),
    RequestSpec(Code.GET_CONSUMER_STATUS_FROM_CLIENT, h.GetConsumerStatus),
    RequestSpec(Code.PUSH_REPLY_MESSAGE_TO_CLIENT, h.ReplyMessage),
)
NOT_SERVED: Final = (
    RequestSpec(Code.REGISTER_TOPIC_IN_NAMESRV, h.RegisterTopic),
    RequestSpec(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, h.UpdateGroupForbidden),
    RequestSpec(Code.GET_BROKER_MEMBER_GROUP, h.GetBrokerMemberGroup),
    RequestSpec(Code.BROKER_HEARTBEAT, h.BrokerHeartbeat),
    RequestSpec(Code.POP_MESSAGE, h.PopMessage, h.PopMessageResponse, answer_size=AnswerSize.ALL),
    RequestSpec(Code.ACK_MESSAGE, h.AckMessage),
    RequestSpec(Code.PEEK_MESSAGE, h.PeekMessage, answer_size=AnswerSize.ALL),
    RequestSpec(
        Code.CHANGE_MESSAGE_INVISIBLETIME, h.ChangeInvisibleTime, h.ChangeInvisibleTimeResponse
    ),
    RequestSpec(Code.NOTIFICATION, h.Notification, h.NotificationResponse),
    RequestSpec(Code.POLLING_INFO, h.PollingInfo, h.PollingInfoResponse),
)
FOREIGN: Final = (*TO_CLIENTS, *NOT_SERVED)
