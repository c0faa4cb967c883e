"""The SDK works the same over trio, asyncio and threads, against `lanemq serve`."""

import pytest

from lanemq.testkit.sdk.faces import FACES, run_scenario
from lanemq.testkit.sdk.scenarios import SCENARIOS

pytestmark = [
    pytest.mark.slow,  # a server, and all waiting by the real clock
    pytest.mark.usefixtures("patient_ends"),
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", [scenario.__name__ for scenario in SCENARIOS])
def test_every_face_does_what_the_core_does(face: str, name: str, quick_server: str) -> None:
    run_scenario(face, name, name_servers=quick_server, run=face)
