"""Addresses that brokers leave: connections to them end, and ids of messages still name them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from lanemq.wire import HostAddress, LocalProtocolError, RemoteProtocolError
from lanemq.wire.bodies import BrokerData

from ._broker_port import BrokerPort
from ._link import BrokerLink
from ._numbers import BrokerKey
from ._seen_port import SeenPort

HOSTS_MAX: Final = 10_000
"""Addresses at which brokers are, or were."""


def note_host(hosts: dict[bytes, bytes], port: BrokerPort, ports: Collection[SeenPort]) -> None:
    """Note the address of a port's broker, as ids of messages have it, with the port's own.

    Beyond ``HOSTS_MAX`` half of them go, the oldest at which no broker is.
    """
    for upstream in _packed(port.upstream):
        hosts.pop(upstream, None)
        hosts[upstream] = port.address.packed.hex().upper().encode()
    if len(hosts) > HOSTS_MAX:
        current = {host for one in ports for host in _packed(one.upstream)}
        for host in [host for host in hosts if host not in current][: HOSTS_MAX // 2]:
            del hosts[host]


def _packed(address: str) -> Iterator[bytes]:
    """Give an address in hexadecimal digits; nothing for a name, which no id has."""
    with suppress(LocalProtocolError, RemoteProtocolError):
        yield HostAddress.parse(address).packed.hex().upper().encode()


def links_to_left(
    ports: Collection[SeenPort], left: Mapping[str, BrokerPort]
) -> Sequence[tuple[BrokerLink, str]]:
    """Return the links of other ports to addresses that brokers have left, with the reason to end.

    ``left`` has the port of each broker that was there. All of one look are sought together: a
    thousand brokers may change their address in one.
    """
    return [
        (link, f"broker {left[link.address].name} is no longer there")
        for port in ports
        for link in port.all_links
        if link.address in left and port is not left[link.address]
        if port.upstream != link.address
    ]


def taken_over(
    ports: Mapping[BrokerKey, SeenPort], listed: Collection[BrokerKey], told: Sequence[BrokerData]
) -> Iterator[BrokerPort]:
    """Iterate over ports that lead to where another broker is now, and their own is not listed.

    What is asked there is by the numbers of the broker that is gone, and the other one may have
    queues of the same numbers.
    """
    names = {at: one.broker_name for one in told for at in one.broker_addrs.values() if at}
    for key, port in ports.items():
        is_lost = key not in listed and names.get(port.upstream, key.name) != key.name
        if is_lost and isinstance(port, BrokerPort):
            yield port
