"""Servers in processes of their own, as tests of every part use them: ports, settings, patience."""

from lanemq.compat.servers._clusters import TEST_SETTINGS
from lanemq.compat.servers._ports import free_port
from lanemq.compat.servers._waiting import (
    PATIENT_CLIENT,
    PATIENT_PRODUCER,
    PATIENT_S,
    patient,
    until,
)
from lanemq.sdk.net._client import now_ms

__all__ = [
    "PATIENT_CLIENT",
    "PATIENT_PRODUCER",
    "PATIENT_S",
    "TEST_SETTINGS",
    "free_port",
    "now_ms",
    "patient",
    "until",
]
