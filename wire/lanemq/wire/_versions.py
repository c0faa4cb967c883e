"""Protocol versions: the position of a release in the reference's list of all releases.

Source: RocketMQ 5.3.3, MQVersion (a superset of the list of 4.9.8).
"""

from enum import IntEnum
from typing import final


@final
class Version(IntEnum):
    """The versions at which a peer's behaviour changes, and those of well-known clients."""

    V3_0_7_SNAPSHOT = 28  # from here a client takes a reset-offset push
    V3_0_11 = 37  # from here REGISTER_BROKER has a full body
    V3_1_8_SNAPSHOT = 62  # from here a client answers running info and consume-directly
    V3_2_6_SNAPSHOT = 78  # what the 3.2.6 jar sends
    V3_4_9 = 121  # from here maxReconsumeTimes of a request counts; what ali-ons sends
    V4_0_0 = 213
    V4_1_0_SNAPSHOT = 232  # below, a client refuses SQL92 subscriptions
    V4_2_0 = 253
    V4_5_2 = 317  # what the Go client sends
    V4_9_4 = 401  # from here a route may be written in standard JSON
    V4_9_7 = 407
    V4_9_8 = 409
    V5_0_0 = 413
    V5_2_0 = 453  # from here a client takes GO_AWAY
    V5_3_3 = 479


VERSION = int(Version.V4_9_8)
"""The version we advertise. Java consumers read it in the heartbeat's answer."""
TIMERS_FIELD = "timers"
"""A field of heartbeats, and of the answers of lanemq's brokers that know the timers of 5.x."""


def _names() -> list[str]:
    """Rebuild the reference's list, which is regular but for its beginning."""
    names = ["V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1"]
    names += [f"V3_0_0_BETA{n}" for n in range(1, 6)]
    for n in range(6, 10):
        names += [f"V3_0_0_BETA{n}_SNAPSHOT", f"V3_0_0_BETA{n}"]
    names.append("V3_0_0_FINAL")
    releases = [f"V3_0_{patch}" for patch in range(1, 16)]
    for major, minor in [(3, n) for n in range(1, 10)] + [(4, n) for n in range(10)]:
        first_patch = 1 if major == 3 and minor >= 3 else 0
        releases += [f"V{major}_{minor}_{patch}" for patch in range(first_patch, 10)]
    releases += [f"V5_{minor}_{patch}" for minor in range(10) for patch in range(10)]
    for release in releases:
        names += [f"{release}_SNAPSHOT", release]
    names.append("HIGHER_VERSION")
    return names


def version_name(version: int) -> str:
    """Name ``version`` as the reference prints it, such as ``V4_9_8``.

    A number below the list is its first name, one beyond it its last, as in the reference.
    """
    return _NAMES[min(max(version, 0), len(_NAMES) - 1)]


_NAMES = _names()
