"""String formats that schemas of custom resources may ask for.

A format that is not known here is not checked, as upstream. Names are compared without
dashes: `date-time` is `datetime`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import datetime

Check = Callable[[str], bool]

_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_COLOUR = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MAX_EMAIL = 1000
"""Addresses have at most 320 characters; more than that is a name beside it."""
_OCTETS = re.compile(r"0*([0-9]{1,3})")
_NOT_DIGITS = re.compile(r"[^0-9]+")
_SPACES_AND_MINUS = re.compile(r"[\s-]+", re.ASCII)


def _matching(pattern: str, flags: re.RegexFlag = re.ASCII) -> Check:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str = "[0-9a-f]") -> Check:
    return _matching(_UUID % (version, variant), re.IGNORECASE | re.ASCII)


def _uri(text: str) -> bool:
    from pykcp.machinery.cel.library.urls import CelURLError, parse_url

    try:
        parse_url(text)
    except CelURLError:
        return text == "*"
    return True


def _email(text: str) -> bool:
    """An address as in a mail's header, with or without a name."""
    from email.utils import parseaddr

    if len(text) > _MAX_EMAIL:
        return False
    try:
        _, address = parseaddr(text)
    except RecursionError:  # comments within comments
        return False
    local, _, domain = address.rpartition("@")
    return bool(local and domain) and not any(c.isspace() for c in address)


def _hostname(text: str) -> bool:
    if len(text.encode()) > 255:
        return False
    labels = text.split(".")
    if any(len(label.encode()) > 63 for label in labels):
        return False
    if len(labels) == 1:
        return _single_label(text)
    *names, top = labels
    return all(map(_host_label, names)) and 2 <= len(top) <= 63 and all(map(_is_letter, top))


def _single_label(text: str) -> bool:
    rest = text[1:].removeprefix("-")
    return (
        bool(text) and _is_host_char(text[0]) and len(rest) <= 62 and all(map(_is_host_char, rest))
    )


def _host_label(text: str) -> bool:
    if not text or not _is_host_char(text[0]) or not _is_host_char(text[-1]):
        return False
    return all(c == "-" or _is_host_char(c) for c in text)


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L"


def _is_host_char(char: str) -> bool:
    return char in "0123456789" or unicodedata.category(char)[0] in "LS"


def _plain_v4(text: str) -> str | None:
    """Without the leading zeroes that older versions of Go took."""
    if text.count(".") != 3:
        return None
    parts = text.split(".")
    found = [_OCTETS.fullmatch(p) for p in parts]
    return ".".join(str(int(m[1])) for m in found if m) if all(found) else None


def _ipv4(text: str) -> bool:
    if ":" in text:
        return "." in text and _ipv6(text)
    from ipaddress import AddressValueError, IPv4Address

    plain = _plain_v4(text)
    try:
        IPv4Address(plain or "")
    except AddressValueError:
        return False
    return True


def _ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address

    if "%" in text or ":" not in text:
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _cidr(text: str) -> bool:
    address, slash, bits = text.rpartition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 7:
        return False
    if ":" in address:
        return _ipv6(address) and int(bits) <= 128
    return _ipv4(address) and int(bits) <= 32


_MAC = (
    r"[0-9a-fA-F]{2}(?:(:|-)[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?:(?:\1[0-9a-fA-F]{2}){2}|"
    r"(?:\1[0-9a-fA-F]{2}){14})?|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}"
    r"(?:\.[0-9a-fA-F]{4}|(?:\.[0-9a-fA-F]{4}){7})?"
)


def _isbn10(text: str) -> bool:
    digits = _SPACES_AND_MINUS.sub("", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if c == "X" else int(c) for c in digits]
    return sum(i * v for i, v in enumerate(values, 1)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = _SPACES_AND_MINUS.sub("", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _credit_card(text: str) -> bool:
    digits = _NOT_DIGITS.sub("", text)
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for index, char in enumerate(reversed(digits)):
        value = int(char) * (1 + index % 2)
        total += value % 10 + 1 if value >= 10 else value
    return total % 10 == 0


def _date(text: str) -> bool:
    from pykcp.machinery.cel.library.times import parse_date

    return parse_date(text) is not None


_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


def _date_time(text: str) -> bool:
    if len(text) == 20 and text[10] == "T" and text[19] == "Z":
        try:  # by far the commonest form
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return True
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or not _date(parts[0]):
        return False
    match = _TIME.fullmatch(parts[1])
    if match is None:
        return False
    hour, minute, second = match.group(1, 2, 3)
    return hour <= "23" and minute <= "59" and second <= "59"


def _duration(text: str) -> bool:
    from pykcp.machinery.cel.library.times import parse_loose_duration

    return parse_loose_duration(text) is not None


def _short_name(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def _long_name(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None


_SSN = _matching(r"\d{3}[- ]?\d{2}[- ]?\d{4}")

FORMATS: dict[str, Check] = {
    "bsonobjectid": _matching("[0-9a-fA-F]{24}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": _matching(_MAC),
    "uuid": _uuid("[0-9a-f]"),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": lambda text: len(text) == 11 and _SSN(text),
    "hexcolor": _matching("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(rf"rgb\(\s*{_COLOUR}\s*,\s*{_COLOUR}\s*,\s*{_COLOUR}\s*\)"),
    "byte": _matching(
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
    ),
    "password": lambda _text: True,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "k8sshortname": _short_name,
    "k8slongname": _long_name,
}


def known_format(kind: str, name: str) -> str:
    """The format if it is checked for values of this type, otherwise ""."""
    if kind in {"", "string"}:
        return name if name.replace("-", "") in FORMATS else ""
    if kind == "integer":
        return name if name in {"int32", "int64"} else ""
    if kind == "number":
        return name if name in {"float", "double"} else ""
    return ""


def format_check(name: str) -> Check:
    """The check of a known format."""
    return FORMATS[name.replace("-", "")]
