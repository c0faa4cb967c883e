"""The SDK works the same over trio, asyncio and threads, against Apache's brokers too."""

from functools import partial

import pytest
import trio

from lanemq.compat import run_server
from lanemq.compat.servers._apache import APACHE_VERSIONS
from lanemq.testkit.sdk.faces import FACES, run_scenario
from lanemq.testkit.sdk.scenarios import SCENARIOS, TRANSACTION_SCENARIOS

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]


async def run_all(face: str, name_servers: str) -> None:
    """Run every scenario over ``face``, in a thread of its own."""
    for scenario in (*SCENARIOS, *TRANSACTION_SCENARIOS):
        name = scenario.__name__
        run = partial(run_scenario, face, name, name_servers=name_servers, run=face)
        try:
            await trio.to_thread.run_sync(run)
        except Exception as error:
            error.add_note(f"in {name}, over {face}")
            raise


@pytest.mark.parametrize("version", APACHE_VERSIONS)
async def test_every_face_does_what_the_core_does(version: str) -> None:
    async with run_server(f"apache-{version}") as cluster, trio.open_nursery() as nursery:
        for face in FACES:
            nursery.start_soon(run_all, face, cluster.name_server)
