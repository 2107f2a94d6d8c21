"""IP addresses and CIDR blocks, read as strictly as Go's netip reads them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.runtime.values import EvalError
from pykcp.machinery.status import go_quote

_HEX = re.compile(r"[0-9a-fA-F]+")


class IP:
    __slots__ = ("bits", "value")
    cel_type = "net.IP"

    def __init__(self, value: int, bits: int) -> None:
        self.value = value
        self.bits = bits
        """32 or 128."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and (self.value, self.bits) == (other.value, other.bits)

    def __hash__(self) -> int:
        return hash((self.value, self.bits))

    def __str__(self) -> str:
        if self.bits == 32:
            return str(ipaddress.IPv4Address(self.value))
        return str(ipaddress.IPv6Address(self.value))

    @property
    def size(self) -> int:
        """What a cost is computed from."""
        return self.bits // 8


class CIDR:
    __slots__ = ("ip", "length")
    cel_type = "net.CIDR"

    def __init__(self, ip: IP, length: int) -> None:
        self.ip = ip
        self.length = length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and (self.ip, self.length) == (other.ip, other.length)

    def __hash__(self) -> int:
        return hash((self.ip, self.length))

    def __str__(self) -> str:
        return f"{self.ip}/{self.length}"

    @property
    def size(self) -> int:
        return -(-self.length // 8)

    def masked(self) -> CIDR:
        free = self.ip.bits - self.length
        return CIDR(IP(self.ip.value >> free << free, self.ip.bits), self.length)

    def contains(self, ip: IP) -> bool:
        free = self.ip.bits - self.length
        return ip.bits == self.ip.bits and ip.value >> free == self.ip.value >> free


class _ParseError(Exception):
    pass


def _error(text: str, message: str, at: str | None = None) -> _ParseError:
    place = f" (at {go_quote(at)})" if at is not None else ""
    return _ParseError(f"ParseAddr({go_quote(text)}): {message}{place}")


def _parse_v4(whole: str, text: str) -> int:
    value, fields, digits, number = 0, 0, 0, 0
    for i, c in enumerate(text):
        if c in "0123456789":
            if digits == 1 and number == 0:
                raise _error(whole, "IPv4 field has octet with leading zero")
            number = number * 10 + int(c)
            digits += 1
            if number > 255:
                raise _error(whole, "IPv4 field has value >255")
        elif c == ".":
            if i == 0 or i == len(text) - 1 or text[i - 1] == ".":
                raise _error(whole, "IPv4 field must have at least one digit", text[i:])
            if fields == 3:
                raise _error(whole, "IPv4 address too long")
            value = value << 8 | number
            fields, digits, number = fields + 1, 0, 0
        else:
            raise _error(whole, "unexpected character", text[i:])
    if fields < 3:
        raise _error(whole, "IPv4 address too short")
    return value << 8 | number


def _parse_v6(text: str) -> tuple[int, str]:
    """The value, and the zone that was named."""
    rest, zone = text, ""
    if "%" in rest:
        rest, zone = rest.split("%", 1)
        if not zone:
            raise _error(text, "zone must be a non-empty string")
    groups, gap = _v6_groups(text, rest)
    if len(groups) < 8:
        if gap < 0:
            raise _error(text, "address string too short")
        groups[gap:gap] = [0] * (8 - len(groups))
    elif gap >= 0:
        raise _error(text, "the :: must expand to at least one field of zeros")
    value = 0
    for group in groups:
        value = value << 16 | group
    return value, zone


def _v6_groups(text: str, rest: str) -> tuple[list[int], int]:
    """The fields, and before which of them `::` was; -1 if it was not there."""
    groups: list[int] = []
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return groups, gap
    while len(groups) < 8:
        digits = _v6_digits(text, rest)
        if rest[len(digits) :].startswith("."):
            return groups + _embedded_v4(text, rest, groups, gap), gap
        groups.append(int(digits, 16))
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            raise _error(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _error(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if gap >= 0:
                raise _error(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise _error(text, "trailing garbage after address", rest)
    return groups, gap


def _v6_digits(text: str, rest: str) -> str:
    found = _HEX.match(rest)
    digits = found.group() if found else ""
    if len(digits) > 4:
        # Go reads the whole number before it looks at its length.
        message = "each group must have 4 or less digits"
        if int(digits, 16) > 0xFFFF and int(digits[:5], 16) > 0xFFFF:
            message = "IPv6 field has value >=2^16" if digits[0] == "0" else message
        raise _error(text, message, rest)
    if not digits:
        raise _error(text, "each colon-separated field must have at least one digit", rest)
    return digits


def _embedded_v4(text: str, rest: str, groups: list[int], gap: int) -> list[int]:
    if gap < 0 and len(groups) != 6:
        raise _error(
            text, "embedded IPv4 address must replace the final 2 fields of the address", rest
        )
    if len(groups) > 6:
        raise _error(
            text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest
        )
    embedded = _parse_v4(text, rest)
    return [embedded >> 16, embedded & 0xFFFF]


def _parse_addr(text: str) -> tuple[IP, str]:
    for c in text:
        if c == ".":
            return IP(_parse_v4(text, text), 32), ""
        if c == ":":
            value, zone = _parse_v6(text)
            return IP(value, 128), zone
        if c == "%":
            raise _error(text, "missing IPv6 address")
    raise _error(text, "unable to parse IP")


def _is_mapped(ip: IP) -> bool:
    return ip.bits == 128 and ip.value >> 32 == 0xFFFF


def to_ip(text: str) -> IP:
    try:
        ip, zone = _parse_addr(text)
    except _ParseError as error:
        raise EvalError(
            f"IP Address {go_quote(text)} parse error during conversion from string: {error}"
        ) from error
    if zone:
        raise EvalError(f"IP address {go_quote(text)} with zone value is not allowed")
    if _is_mapped(ip):
        raise EvalError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return ip


_CIDR_ERROR = "network address parse error during conversion from string: "


def to_cidr(text: str) -> CIDR:
    try:
        cidr = _parse_prefix(text)
    except _ParseError as error:
        raise EvalError(
            f"{_CIDR_ERROR}{_CIDR_ERROR}netip.ParsePrefix({go_quote(text)}): {error}"
        ) from error
    if _is_mapped(cidr.ip):
        raise EvalError(f"{_CIDR_ERROR}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return cidr


def _parse_prefix(text: str) -> CIDR:
    at = text.rfind("/")
    if at < 0:
        raise _ParseError("no '/'")
    ip, zone = _parse_addr(text[:at])
    if zone:
        raise _ParseError("IPv6 zones cannot be present in a prefix")
    bits = text[at + 1 :]
    if not re.fullmatch(r"[0-9]+", bits) or (len(bits) > 1 and bits[0] == "0"):
        raise _ParseError(f"bad bits after slash: {go_quote(bits)}")
    if len(bits) > 9 or int(bits) > ip.bits:
        raise _ParseError("prefix length out of range")
    return CIDR(ip, int(bits))


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except EvalError:
            return False
        return True

    return test


def _in(*blocks: str) -> Callable[[IP], bool]:
    parsed = [_parse_prefix(b) for b in blocks]
    return lambda ip: any(block.contains(ip) for block in parsed)


_loopback = _in("127.0.0.0/8", "::1/128")
_link_multicast = _in("224.0.0.0/24", "ff02::/16")
_link_unicast = _in("169.254.0.0/16", "fe80::/10")
_multicast = _in("224.0.0.0/4", "ff00::/8")
_unspecified = _in("0.0.0.0/32", "::/128")


def _global_unicast(ip: IP) -> bool:
    if ip.bits == 32 and ip.value == 0xFFFFFFFF:
        return False
    return not any(f(ip) for f in (_unspecified, _loopback, _multicast, _link_unicast))


def _cidr_contains(outer: CIDR, inner: CIDR) -> bool:
    return outer.length <= inner.length and outer.contains(inner.ip)


def _contains_ip_text(cidr: CIDR, text: str) -> bool:
    try:
        return cidr.contains(to_ip(text))
    except EvalError as error:
        raise EvalError("no such overload") from error


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_ip": to_ip,
    "is_ip": _parses(to_ip),
    "ip_is_canonical": lambda text: str(to_ip(text)) == text,
    "ip_family": lambda ip: 4 if ip.bits == 32 else 6,
    "ip_to_string": str,
    "ip_is_unspecified": _unspecified,
    "ip_is_loopback": _loopback,
    "ip_is_link_local_multicast": _link_multicast,
    "ip_is_link_local_unicast": _link_unicast,
    "ip_is_global_unicast": _global_unicast,
    "string_to_cidr": to_cidr,
    "is_cidr": _parses(to_cidr),
    "cidr_to_string": str,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_ip_ip": CIDR.contains,
    "cidr_contains_cidr_string": lambda cidr, text: _cidr_contains(cidr, to_cidr(text)),
    "cidr_contains_cidr": _cidr_contains,
    "cidr_ip": lambda cidr: cidr.ip,
    "cidr_prefix_length": lambda cidr: cidr.length,
    "cidr_masked": CIDR.masked,
}
