"""Requests that bring, fetch and find messages, and ends of transactions."""

from typing import Final

from .. import headers as h
from .._codes import RequestCode as Code
from .._names import REPLY_POSTFIX
from ._rights import Action, Kind, Right
from ._spec import BOTH, BROKER, Absent, AnswerSize, BodyKind, Field, Found, RequestSpec, Touch

_LONG: Final = BodyKind.LONG
_WIDE, _ALL = AnswerSize.WIDE, AnswerSize.ALL
_GROUP: Final = Touch(Kind.GROUP, Field("consumerGroup"), Right.READ, (Action.SUB,))
_READS: Final = Touch(Kind.TOPIC, Field("topic"), Right.READ, (Action.SUB,))
_ASKS: Final = Touch(Kind.TOPIC, Field("topic"), Right.USE, (Action.GET,))
_REPLY_REASON: Final = (
    "in the cluster's topic for replies the client's groups decide; another topic that ends so "
    "needs PUB or `Pub`"
)
_ASKER: Final = Touch(
    Kind.GROUP,
    Found("each producer group of the client that it is for, if anybody's permissions name it"),
    Right.USE,
    (Action.PUB, Action.SUB),
)


def _sends(field: str, group_field: str = "") -> Touch:
    source = Field(field, retry_group=group_field)
    return Touch(Kind.TOPIC, source, Right.WRITE, (Action.PUB,))


def _found_topic(what: str, right: Right, *actions: Action) -> Touch:
    return Touch(Kind.TOPIC, Found(f"the topic of the {what}"), right, actions)


def _replies(field: str) -> Touch:
    source = Field(field, spared=REPLY_POSTFIX)
    return Touch(Kind.TOPIC, source, Right.WRITE, (Action.PUB,), _REPLY_REASON)


def _if_named(right: Right, *actions: Action) -> Touch:
    return Touch(Kind.TOPIC, Field("topic", Absent.NOTHING), right, actions)


_MEMBERSHIP: Final = Touch(
    Kind.GROUP,
    Found("the producer group of a half message"),
    Right.USE,
    (Action.PUB, Action.SUB),
)
_LONG_SEND: Final = (_sends("topic"), _MEMBERSHIP)
_LETTER_SEND: Final = (_sends("b", "a"), _MEMBERSHIP)
_SENT: Final = h.SendMessageResponse

SENDS: Final = (
    RequestSpec(Code.SEND_MESSAGE, h.SendMessage, _SENT, _LONG_SEND, BOTH, _LONG),
    RequestSpec(Code.SEND_MESSAGE_V2, h.SendMessageV2, _SENT, _LETTER_SEND, BOTH, _LONG),
    RequestSpec(Code.SEND_BATCH_MESSAGE, h.SendMessageV2, _SENT, _LETTER_SEND, BOTH, _LONG),
    RequestSpec(
        Code.SEND_REPLY_MESSAGE, h.SendMessage, _SENT, (_replies("topic"), _ASKER), BROKER, _LONG
    ),
    RequestSpec(
        Code.SEND_REPLY_MESSAGE_V2, h.SendMessageV2, _SENT, (_replies("b"), _ASKER), BROKER, _LONG
    ),
    RequestSpec(
        Code.RECALL_MESSAGE,
        h.RecallMessage,
        h.RecallMessageResponse,
        touches=(_sends("topic", "producerGroup"),),
        ports=BROKER,
    ),
    RequestSpec(
        Code.CONSUMER_SEND_MSG_BACK,
        h.ConsumerSendMsgBack,
        touches=(
            Touch(Kind.GROUP, Field("group"), Right.READ, (Action.SUB,)),
            _found_topic("message", Right.READ, Action.SUB, Action.GET),
        ),
        ports=BOTH,
    ),
    RequestSpec(
        Code.END_TRANSACTION,
        h.EndTransaction,
        touches=(
            _if_named(Right.WRITE, Action.PUB),
            _found_topic("half message", Right.WRITE, Action.PUB),
            _MEMBERSHIP,
        ),
        ports=BOTH,
        is_shared=True,
    ),
    RequestSpec(
        Code.RESUME_CHECK_HALF_MESSAGE,
        h.ResumeCheckHalfMessage,
        touches=(
            _if_named(Right.WRITE, Action.UPDATE),
            _found_topic("half message", Right.WRITE, Action.PUB),
            _MEMBERSHIP,
        ),
        ports=BROKER,
    ),
)

PULLS: Final = tuple(
    RequestSpec(
        code,
        h.PullMessage,
        h.PullMessageResponse,
        touches=(_READS, _GROUP),
        ports=BOTH,
        body=BodyKind.UNREAD,
        answer_size=_ALL,
    )
    for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)
)

QUERIES: Final = (
    RequestSpec(
        Code.QUERY_MESSAGE,
        h.QueryMessage,
        h.QueryMessageResponse,
        touches=(Touch(Kind.TOPIC, Field("topic"), Right.READ, (Action.SUB, Action.GET)),),
        ports=BOTH,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.VIEW_MESSAGE_BY_ID,
        h.ViewMessage,
        touches=(
            _if_named(Right.READ, Action.GET),
            _found_topic("message", Right.READ, Action.SUB, Action.GET),
        ),
        ports=BOTH,
        answer_size=_ALL,
    ),
    RequestSpec(Code.SEARCH_OFFSET_BY_TIMESTAMP, h.SearchOffset, h.OffsetResponse, (_ASKS,), BOTH),
    RequestSpec(Code.GET_MAX_OFFSET, h.GetMaxOffset, h.OffsetResponse, (_ASKS,), BOTH),
    RequestSpec(Code.GET_MIN_OFFSET, h.GetMinOffset, h.OffsetResponse, (_ASKS,), BOTH),
    RequestSpec(
        Code.GET_EARLIEST_MSG_STORETIME,
        h.GetEarliestMsgStoretime,
        h.GetEarliestMsgStoretimeResponse,
        touches=(_ASKS,),
        ports=BOTH,
    ),
    RequestSpec(
        Code.QUERY_CONSUME_QUEUE,
        h.QueryConsumeQueue,
        touches=(
            Touch(Kind.TOPIC, Field("topic"), Right.READ, (Action.GET,)),
            Touch(Kind.GROUP, Field("consumerGroup", Absent.NOTHING), Right.READ, (Action.GET,)),
        ),
        ports=BROKER,
        answer_size=_WIDE,
    ),
)

MESSAGES: Final = (*SENDS, *PULLS, *QUERIES)
