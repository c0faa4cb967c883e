"""Requests declared once: each code with its headers, its body, its ports, and what it touches."""

from ._rights import Action, Kind, Right
from ._spec import (
    WHOLE,
    Absent,
    AnswerSize,
    BodyKind,
    Field,
    Found,
    InBody,
    Keys,
    Port,
    RequestSpec,
    Source,
    Touch,
    Whole,
    free,
)
from ._table import REQUESTS, longest_answer

__all__ = [
    "REQUESTS",
    "WHOLE",
    "Absent",
    "Action",
    "AnswerSize",
    "BodyKind",
    "Field",
    "Found",
    "InBody",
    "Keys",
    "Kind",
    "Port",
    "RequestSpec",
    "Right",
    "Source",
    "Touch",
    "Whole",
    "free",
    "longest_answer",
]
