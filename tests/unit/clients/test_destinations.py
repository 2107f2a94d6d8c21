"""Which addresses may be called for tenants."""

from __future__ import annotations

import ipaddress

import pytest

from pykcp.clients.destinations import (
    BadEntry,
    DestinationRule,
    Destinations,
    OwnSocket,
    is_local,
    parse_entry,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.0/8", DestinationRule(ipaddress.ip_network("10.0.0.0/8"))),
        ("10.0.0.5", DestinationRule(ipaddress.ip_network("10.0.0.5/32"))),
        ("10.0.0.5:6443", DestinationRule(ipaddress.ip_network("10.0.0.5/32"), port=6443)),
        ("fd00::/8", DestinationRule(ipaddress.ip_network("fd00::/8"))),
        ("[fd00::5]:6443", DestinationRule(ipaddress.ip_network("fd00::5/128"), port=6443)),
        ("[fd00::5]", DestinationRule(ipaddress.ip_network("fd00::5/128"))),
        ("Hooks.Example.com", DestinationRule(name="hooks.example.com")),
        ("*.example.com:8443", DestinationRule(name=".example.com", port=8443)),
    ],
)
def test_entries(text: str, expected: DestinationRule) -> None:
    assert parse_entry(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "10.0.0.0/33", "10.0.0", "host:", "host:99999", "host:x", "ho*st", "*x.com", "a b", "*"],
)
def test_entries_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(BadEntry):
        parse_entry(text)


DENIED = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "fd00:ec2::254",
    "100.100.100.200",
]


@pytest.mark.parametrize("address", DENIED)
def test_what_nobody_may_call(address: str) -> None:
    found = ipaddress.ip_address(address)
    assert not Destinations().allows("x", found, 443)
    everything = Destinations(allow=["0.0.0.0/0", "::/0"])
    assert not everything.allows("x", found, 443), "a network around it does not name it"


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "8.8.8.8", "::1"])
def test_everything_else_may_be_called(address: str) -> None:
    assert Destinations().allows("x", ipaddress.ip_address(address), 443)


V4, V6 = ipaddress.ip_address("10.0.0.5"), ipaddress.ip_address("fd00::5")
LINK = ipaddress.ip_address("169.254.1.1")


@pytest.mark.parametrize(
    ("allow", "deny", "host", "address", "port", "expected"),
    [
        ([], ["10.0.0.0/8"], "x", V4, 443, False),
        ([], ["10.0.0.0/8"], "x", V6, 443, True),
        ([], ["10.0.0.0/8"], "x", ipaddress.ip_address("::ffff:10.0.0.5"), 443, False),
        ([], ["10.0.0.5:443"], "x", V4, 443, False),
        ([], ["10.0.0.5:443"], "x", V4, 8443, True),
        ([], ["*.internal"], "db.internal", V4, 443, False),
        ([], ["*.internal"], "internal", V4, 443, True),
        ([], ["db.internal"], "DB.internal.", V4, 443, False),
        (["10.0.0.0/8"], [], "x", V4, 443, True),
        (["10.0.0.0/8"], [], "x", V6, 443, False),
        (["10.0.0.0/8"], ["10.0.0.5"], "x", V4, 443, False),
        (["*.example.com"], [], "a.example.com", V4, 443, True),
        (["*.example.com"], [], "example.org", V4, 443, False),
        (["*.example.com"], [], "a.example.com", LINK, 443, False),
        (["169.254.1.1"], [], "x", LINK, 443, True),
        (["169.254.0.0/16"], [], "x", LINK, 443, True),
        (["169.254.1.1"], ["169.254.0.0/16"], "x", LINK, 443, False),
    ],
)
def test_lists_of_the_operator(
    allow: list[str],
    deny: list[str],
    host: str,
    address: ipaddress.IPv4Address,
    port: int,
    expected: bool,
) -> None:
    assert Destinations(allow, deny).allows(host, address, port) is expected


def test_own_sockets() -> None:
    """Exactly they: other ports of the same machine are anybody's."""
    here = ipaddress.ip_address("127.0.0.1")
    own = [OwnSocket("0.0.0.0", 6443), OwnSocket("10.0.0.5", 2379), OwnSocket("kcp.test", 443)]
    destinations = Destinations(own=own)
    assert not destinations.allows("127.0.0.1", here, 6443)
    assert not destinations.allows("x", ipaddress.ip_address("::ffff:127.0.0.1"), 6443)
    assert destinations.allows("127.0.0.1", here, 6444)
    assert destinations.allows("x", ipaddress.ip_address("192.0.2.1"), 6443), "not this machine"
    assert not destinations.allows("x", V4, 2379)
    assert destinations.allows("x", V4, 2380)
    assert not destinations.allows("kcp.test", V6, 443)
    assert destinations.own_names(443) == {"kcp.test"}
    assert not destinations.allows("other.test", V6, 443, own={V6}), "what an own name resolves to"
    assert Destinations(["127.0.0.1:6443"], own=own).allows("x", here, 6443)
    assert not Destinations(["127.0.0.0/8"], own=own).allows("x", here, 6443)


def test_local_addresses() -> None:
    assert is_local(ipaddress.ip_address("127.3.2.1"))
    assert not is_local(ipaddress.ip_address("192.0.2.1"))
