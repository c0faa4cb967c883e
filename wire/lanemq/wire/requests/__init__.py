"""Requests declared once: each code with its headers, its body, its ports, and what it touches."""

from ._rights import Action, Kind, Right
from ._spec import (
    WHOLE,
    Absent,
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
from ._table import REQUESTS

__all__ = [
    "REQUESTS",
    "WHOLE",
    "Absent",
    "Action",
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
]
