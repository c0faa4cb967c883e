"""The brokers that ``-b`` and ``-c`` mean."""

from ..._client import AdminClient
from ._command import fail


async def chosen_masters(admin: AdminClient, broker: str | None, cluster: str | None) -> list[str]:
    """Return the masters that ``-b`` or ``-c`` names; exactly one of the two is given."""
    if (broker is None) == (cluster is None):
        fail("give either -b BROKER_ADDRESS or -c CLUSTER_NAME (`clusterList` shows both)")
    if broker is not None:
        return [broker.strip()]
    assert cluster is not None
    return await admin.masters(cluster.strip())
