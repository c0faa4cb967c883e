"""Addresses: text, packed bytes, sockets."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import HostAddress, LocalProtocolError, RemoteProtocolError

PORTS = st.integers(0, 0xFFFF)
# An IPv4 address inside an IPv6 one has two spellings; the reference's is that of inet_ntop.
LITERALS = st.ip_addresses().map(str).filter(lambda text: not text.startswith("::"))
HOSTS = st.builds(HostAddress, LITERALS, PORTS)


@given(HOSTS)
def test_packed_hosts_come_back(host: HostAddress) -> None:
    assert HostAddress.unpack(host.packed) == host
    assert len(host.packed) == (20 if host.is_v6 else 8)


@given(st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)))
def test_all_bytes_of_the_right_size_come_back(data: bytes) -> None:
    assert HostAddress.unpack(data).packed == data


@given(st.binary().filter(lambda data: len(data) not in (8, 20)))
def test_bytes_of_another_size_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        HostAddress.unpack(data)


@given(HOSTS)
def test_the_text_form_comes_back(host: HostAddress) -> None:
    assert HostAddress.parse(str(host)) == host
    assert HostAddress.parse(f"[{host.host}]:{host.port}") == host


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with suppress(RemoteProtocolError):
        HostAddress.parse(text)


@pytest.mark.parametrize("text", ["", "host", ":1", "h:", "h:-1", "h:65536", "h:1x", "h:\u0661"])
def test_broken_addresses_are_named(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        HostAddress.parse(text)


def test_a_packed_host_has_its_port_in_four_bytes() -> None:
    assert HostAddress("127.0.0.1", 10911).packed == b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def test_a_name_has_no_packed_form() -> None:
    with pytest.raises(LocalProtocolError):
        _ = HostAddress("broker-a", 10911).packed


def test_a_port_beyond_32_bits_has_no_packed_form() -> None:
    with pytest.raises(LocalProtocolError):
        _ = HostAddress("127.0.0.1", 1 << 40).packed


@pytest.mark.parametrize(
    ("sockaddr", "host"),
    [
        (("10.0.0.7", 4000), HostAddress("10.0.0.7", 4000)),
        (("::ffff:10.0.0.7", 4000, 0, 0), HostAddress("10.0.0.7", 4000)),
        (("::FFFF:10.0.0.7", 4000, 0, 0), HostAddress("10.0.0.7", 4000)),
        (("fe80::1%eth0", 4000, 0, 2), HostAddress("fe80::1", 4000)),
        (("::1", 4000, 0, 0), HostAddress("::1", 4000)),
    ],
)
def test_peers_of_a_dual_stack_socket_are_unwrapped(
    sockaddr: tuple[object, ...], host: HostAddress
) -> None:
    assert HostAddress.of_peer(sockaddr) == host
