"""Which addresses may be called for tenants. Pure.

The operator's lists come first. Unless they say otherwise everything is allowed but
link-local addresses, addresses that are no single host's, the metadata services of clouds
and the sockets on which this installation's own parts listen.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_DENIED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local, and the metadata service of most clouds
        "fe80::/10",
        "0.0.0.0/8",  # "this host"
        "::/128",
        "224.0.0.0/4",  # multicast
        "ff00::/8",
        "255.255.255.255/32",
        "fd00:ec2::254/128",  # metadata services at other addresses
        "fd20:ce::254/128",
        "100.100.100.200/32",
        "168.63.129.16/32",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")


class BadEntry(ValueError):
    """An entry of a list that cannot be understood."""


class DestinationRule(NamedTuple):
    """Addresses or names, and perhaps a port, as a flag lists them."""

    network: Network | None = None
    name: str = ""
    """A host name; one that begins with a dot stands for all names below it."""
    port: int = 0
    """0: any."""

    def matches(self, host: str, address: Address, port: int) -> bool:
        if self.port and self.port != port:
            return False
        if self.network is not None:
            return address in self.network
        if self.name.startswith("."):
            return host.endswith(self.name)
        return host == self.name


def parse_entry(text: str) -> DestinationRule:
    """`10.0.0.0/8`, `10.0.0.5:6443`, `[fd00::5]:6443`, `hooks.example.com`, `*.example.com:443`."""
    rest, port = text.strip(), 0
    if rest.count(":") == 1 or rest.startswith("["):
        rest, _, digits = rest.rpartition(":") if not rest.endswith("]") else (rest, "", "")
        if digits or not text.strip().endswith("]"):
            if not digits.isdecimal() or not 0 < int(digits) < 65536:
                raise BadEntry(f"{text!r} has no valid port")
            port = int(digits)
    bare = rest.removeprefix("[").removesuffix("]")
    try:
        return DestinationRule(network=ipaddress.ip_network(bare, strict=False), port=port)
    except ValueError:
        pass
    name = host_key(bare).removeprefix("*")
    if not name or not all(c.isalnum() or c in "-._" for c in name) or _is_numeric(name):
        raise BadEntry(f"{text!r} is neither an address, a network nor a host name")
    if bare.startswith("*") and not name.startswith("."):
        raise BadEntry(f"{text!r}: a * can only stand for whole labels, as in *.example.com")
    return DestinationRule(name=name, port=port)


def _is_numeric(name: str) -> bool:
    """Whether it looks like an address that cannot be read."""
    return all(c.isdigit() or c in "./" for c in name)


def host_key(host: str) -> str:
    """A host name as names are compared."""
    return host.lower().rstrip(".")


class OwnSocket(NamedTuple):
    """Where a part of this installation listens: an address, or a name that has to be resolved."""

    host: str
    port: int


class Destinations:
    """What may be called; `own` are the sockets of this installation's parts."""

    def __init__(
        self,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        own: Collection[OwnSocket] = (),
    ) -> None:
        """Raises BadEntry."""
        self._allow = [parse_entry(text) for text in allow]
        self._deny = [parse_entry(text) for text in deny]
        self._own: dict[int, set[Address]] = {}
        self._own_names: dict[int, set[str]] = {}
        self.add_own(own)

    def add_own(self, own: Iterable[OwnSocket]) -> None:
        for each in own:
            try:
                address = ipaddress.ip_address(each.host)
            except ValueError:
                self._own_names.setdefault(each.port, set()).add(host_key(each.host))
            else:
                self._own.setdefault(each.port, set()).add(address)

    def own_names(self, port: int) -> Collection[str]:
        """Names of own parts that listen on the port: whatever they resolve to is own, too."""
        return self._own_names.get(port, ())

    def allows(self, host: str, address: Address, port: int, own: Collection[Address] = ()) -> bool:
        """Whether this address of a host may be connected to; `own`: what own names resolve to."""
        host = host_key(host)
        found = [e for e in self._allow if e.matches(host, address, port)]
        for one in (address, *embedded(address)):
            if any(entry.matches(host, one, port) for entry in self._deny):
                return False
            if not all(self._is_excepted(net, found) for net in _DENIED if one in net):
                return False
            is_own = one in own or self._is_own(host, one, port)
            if is_own and not any(entry.port for entry in found):
                return False
        return bool(found) or not self._allow

    def _is_excepted(self, denied: Network, found: Sequence[DestinationRule]) -> bool:
        """Whether the operator names the address itself, not only a network around it."""
        return any(
            entry.network is not None
            and entry.network.version == denied.version
            and entry.network.subnet_of(denied)  # type: ignore[arg-type]  # of the same version
            for entry in found
        )

    def _is_own(self, host: str, address: Address, port: int) -> bool:
        if host in self._own_names.get(port, ()):
            return True
        return any(
            address == own or (own.is_unspecified and is_local(address))
            for own in self._own.get(port, ())
        )


def embedded(address: Address) -> list[Address]:
    """IPv4 addresses that an IPv6 address stands for: a gateway or this host unwraps them."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 0xFFFF):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def is_local(address: Address) -> bool:
    """Whether this machine has the address: only then a socket can be bound to it."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
