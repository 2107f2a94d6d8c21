"""Named formats: names, labels, dates and the like, with Kubernetes' messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.library.times import parse_date
from pykcp.machinery.cel.library.urls import CelURLError, parse_url
from pykcp.machinery.cel.runtime.values import NONE, Optional

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_UUID = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE
)
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})", re.DOTALL
)


class Format:
    """A way to check strings; `regex_size` is what a check is said to cost."""

    __slots__ = ("check", "name", "regex_size")
    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], list[str]], regex_size: int) -> None:
        self.name = name
        self.check = check
        self.regex_size = regex_size

    def __str__(self) -> str:
        return self.name


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{e}', " for e in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, limit: int) -> list[str]:
    if len(text.encode(errors="replace")) > limit:
        return [f"must be no more than {limit} {'byte' if limit == 1 else 'characters'}"]
    return []


def _dns_label(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _matches(_LABEL, text):
        if _matches(_SUBDOMAIN, text):
            errors.append("must not contain dots")
        else:
            errors.append(
                _regex_error(
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric "
                    "characters or '-', and must start and end with an alphanumeric character",
                    _LABEL, "my-name", "123-abc",
                )
            )  # fmt: skip
    return errors


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None if len(text) < 1000 else False


def _dns_subdomain(text: str) -> list[str]:
    errors = _too_long(text, 253)
    if not _matches(_SUBDOMAIN, text):
        errors.append(
            _regex_error(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
                "characters, '-' or '.', and must start and end with an alphanumeric character",
                _SUBDOMAIN, "example.com",
            )
        )  # fmt: skip
    return errors


def _dns_1035(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _matches(_LABEL_1035, text):
        errors.append(
            _regex_error(
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
                "start with an alphabetic character, and end with an alphanumeric character",
                _LABEL_1035, "my-name", "abc-123",
            )
        )  # fmt: skip
    return errors


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    rule = _regex_error(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        return [
            (
                f"a valid label key {rule} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            )
        ]
    errors: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {m}" for m in _dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors += [f"name part {m}" for m in _too_long(name, 63)]
    if not _matches(_KEY, name):
        errors.append(f"name part {rule}")
    return errors


def _label_value(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _matches(_VALUE, text):
        errors.append(
            _regex_error(
                "a valid label must be an empty string or consist of alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character",
                _VALUE, "MyValue", "my_value", "12345",
            )
        )  # fmt: skip
    return errors


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """For generateName: a dash at the end will be followed by more."""

    def masked(text: str) -> list[str]:
        if len(text) > 1 and text.endswith("-"):
            text = text[:-2] + "a"
        return check(text)

    return masked


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except CelURLError as error:
        return [str(error)]
    return []


def _simple(test: Callable[[str], bool], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [message]


def is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or parse_date(parts[0]) is None:
        return False
    found = _TIME.fullmatch(parts[1])
    return (
        found is not None
        and found.group(1) <= "23"
        and found.group(2) <= "59"
        and found.group(3) <= "59"
    )


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", _dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _dns_1035, 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(_dns_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(_dns_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(_dns_1035), 30),
    "labelValue": Format("LabelValue", _label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format(
        "uuid", _simple(lambda t: bool(_UUID.fullmatch(t)), "does not match the UUID format"), 70
    ),
    "byte": Format("byte", _simple(lambda t: bool(_BASE64.fullmatch(t)), "invalid base64"), 84),
    "date": Format("date", _simple(lambda t: parse_date(t) is not None, "invalid date"), 71),
    "datetime": Format("datetime", _simple(is_date_time, "invalid datetime"), 71),
}


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(fmt: Format, text: str) -> Optional:
    errors = fmt.check(text)
    return Optional(errors) if errors else NONE


def _constant(fmt: Format) -> Callable[[], Format]:
    return lambda: fmt


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "format-named": _named,
    "format-validate": _validate,
    **{f"format.{name}": _constant(fmt) for name, fmt in _FORMATS.items()},
}
