"""Brokers that check every request: users and policies of 5.x, the same at both."""

from typing import Final

from lanemq.compat import PATIENT_S, Cluster
from lanemq.sdk import Credentials, open_remoting_client
from lanemq.sdk.admin import open_admin
from lanemq.wire import RequestCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, TopicConfig, UserInfo
from lanemq.wire.frame import request

CLERK: Final = Credentials(access_key="benchclerk", secret_key="bench-clerk-secret")
"""A user that may send to one topic, and no more: every send is looked up in its policies."""
_CHIEF: Final = Credentials(access_key="benchchief", secret_key="bench-chief-secret")

SETTINGS: Final = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": (
        f'{{"username":"{_CHIEF.access_key}","password":"{_CHIEF.secret_key}"}}'
    ),
    "innerClientAuthenticationCredentials": (
        '{"accessKey":"benchinner","secretKey":"bench-inner-secret"}'
    ),
}
APACHE_SETTINGS: Final = {
    **SETTINGS,
    **{
        f"{kind}{part}": f"org.apache.rocketmq.auth.{kind}.provider.{name}"
        for kind in ("authentication", "authorization")
        for part, name in (
            ("Provider", f"Default{kind.capitalize()}Provider"),
            ("MetadataProvider", f"Local{kind.capitalize()}MetadataProvider"),
        )
    },
}
"""The same, with the names of classes that 5.3.3 has to be told."""


async def admit_clerk(cluster: Cluster, topic: str) -> None:
    """Make a topic, and ``CLERK``, who may send to it."""
    async with open_admin(
        name_servers=cluster.name_server, credentials=_CHIEF, timeout_s=PATIENT_S
    ) as admin:
        (broker,) = await admin.masters("DefaultCluster")
        await admin.put_topic(broker, TopicConfig(topic, 4, 4))
    await cluster.control.until_routed(topic)
    entry = PolicyEntryInfo(f"Topic:{topic}", ("Pub",), None, "Allow")
    subject = f"User:{CLERK.access_key}"
    acl = AclInfo(subject, (PolicyInfo("Custom", (entry,)),))
    user = UserInfo(None, CLERK.secret_key, "Normal")
    async with open_remoting_client(credentials=_CHIEF) as client:
        for frame in (
            request(
                RequestCode.AUTH_CREATE_USER, {"username": CLERK.access_key}, body=user.encode()
            ),
            request(RequestCode.AUTH_CREATE_ACL, {"subject": subject}, body=acl.encode()),
        ):
            await client.call(broker, frame, timeout_s=PATIENT_S)
