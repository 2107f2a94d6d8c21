"""Validation of names, label keys and label values, with upstream's messages.

Each rule returns the list of what is wrong, empty when nothing is. Lengths are counted
in bytes of UTF-8, as upstream counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

NameRule = Callable[[str], list[str]]
"""Says what is wrong with a name."""

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
GENERATED_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
GENERATED_SUFFIX_LENGTH = 5
GENERATED_NAME_MAX = 63

_LABEL_FORMAT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORMAT = rf"{_LABEL_FORMAT}(\.{_LABEL_FORMAT})*"
_1035_FORMAT = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORMAT = f"({_KEY_FORMAT})?"
_CONFIG_KEY_FORMAT = "[-._a-zA-Z0-9]+"
_HTTP_PATH_FORMAT = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_LABEL = re.compile(_LABEL_FORMAT)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORMAT)
_1035 = re.compile(_1035_FORMAT)
_KEY = re.compile(_KEY_FORMAT)
_VALUE = re.compile(_VALUE_FORMAT)
_CONFIG_KEY = re.compile(_CONFIG_KEY_FORMAT)
_HTTP_PATH = re.compile(_HTTP_PATH_FORMAT)

# What nearly every name, key and value looks like: one match and the answer is known.
_PLAIN_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_PLAIN_CONFIG_KEY = re.compile(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}")
_PLAIN_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,40}[a-z0-9])?){0,3}/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


def byte_length(text: str) -> int:
    """The length in bytes of UTF-8: what upstream's `len` counts."""
    return len(text) if text.isascii() else len(text.encode())


def max_length_error(length: int, unit: str = "characters") -> str:
    """Upstream's older rules say characters and its newer ones bytes; both count bytes."""
    return f"must be no more than {length} {unit}"


def empty_error() -> str:
    return "must be non-empty"


def inclusive_range_error(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def regex_error(message: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    quoted = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {quoted}regex used for validation is '{pattern}')"


_LABEL_ERROR = regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL_FORMAT, "my-name", "123-abc",
)  # fmt: skip
_SUBDOMAIN_ERROR = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character",
    _SUBDOMAIN_FORMAT, "example.com",
)  # fmt: skip
_1035_ERROR = regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
    "an alphabetic character, and end with an alphanumeric character",
    _1035_FORMAT, "my-name", "abc-123",
)  # fmt: skip
_KEY_ERROR = regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character",
    _KEY_FORMAT, "MyName", "my.name", "123-abc",
)  # fmt: skip
_VALUE_ERROR = regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
    "or '.', and must start and end with an alphanumeric character",
    _VALUE_FORMAT, "MyValue", "my_value", "12345",
)  # fmt: skip
_CONFIG_KEY_ERROR = regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY_FORMAT, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip


def dns1123_label(value: str) -> list[str]:
    """A label of RFC 1123: what namespaces are called."""
    if _PLAIN_NAME.fullmatch(value):
        return []
    errors = []
    if byte_length(value) > LABEL_MAX:
        errors.append(max_length_error(LABEL_MAX))
    if not _LABEL.fullmatch(value):
        dots = _SUBDOMAIN.fullmatch(value) is not None
        errors.append("must not contain dots" if dots else _LABEL_ERROR)
    return errors


def dns1123_subdomain(value: str, unit: str = "characters") -> list[str]:
    """Labels of RFC 1123 joined by dots: what most objects are called."""
    if _PLAIN_NAME.fullmatch(value):
        return []
    errors = []
    if byte_length(value) > SUBDOMAIN_MAX:
        errors.append(max_length_error(SUBDOMAIN_MAX, unit))
    if not _SUBDOMAIN.fullmatch(value):
        errors.append(_SUBDOMAIN_ERROR)
    return errors


def dns1035_label(value: str) -> list[str]:
    """A label of RFC 1035: like 1123, but starting with a letter."""
    errors = []
    if byte_length(value) > LABEL_MAX:
        errors.append(max_length_error(LABEL_MAX))
    if not _1035.fullmatch(value):
        errors.append(_1035_ERROR)
    return errors


def qualified_name(value: str) -> list[str]:
    """A label key: `name` or `example.com/name`. Annotation keys and finalizers follow it too."""
    if _PLAIN_KEY.fullmatch(value):
        return []
    errors: list[str] = []
    parts = value.split("/")
    if len(parts) > 2:
        return [
            (
                f"a valid label key {_KEY_ERROR} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            )
        ]
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part " + empty_error())
        else:
            errors += ["prefix part " + message for message in dns1123_subdomain(parts[0], "bytes")]
    if not name:
        errors.append("name part " + empty_error())
    elif byte_length(name) > LABEL_MAX:
        errors.append("name part " + max_length_error(LABEL_MAX, "bytes"))
    if not _KEY.fullmatch(name):
        errors.append("name part " + _KEY_ERROR)
    return errors


def label_value(value: str) -> list[str]:
    """A label's value; empty is allowed."""
    errors = []
    if byte_length(value) > LABEL_MAX:
        errors.append(max_length_error(LABEL_MAX, "bytes"))
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_ERROR)
    return errors


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap's or a Secret's data."""
    if _PLAIN_CONFIG_KEY.fullmatch(value):
        return []
    errors = []
    if byte_length(value) > SUBDOMAIN_MAX:
        errors.append(max_length_error(SUBDOMAIN_MAX))
    if not _CONFIG_KEY.fullmatch(value):
        errors.append(_CONFIG_KEY_ERROR)
    if value in {".", ".."}:
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else [inclusive_range_error(1, 65535)]


def http_path(value: str) -> list[str]:
    """The characters RFC 3986 allows in a path."""
    if _HTTP_PATH.fullmatch(value):
        return []
    return [regex_error("Invalid path", _HTTP_PATH_FORMAT)]


def path_segment_name(value: str) -> list[str]:
    """Anything that can stand alone between two slashes of a URL: what roles are called."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> list[str]:
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in value]


class Chooser(Protocol):
    """The one method of `random.Random` that names need."""

    def choices(self, population: str, *, k: int) -> list[str]: ...


def generate_name(base: str, chooser: Chooser) -> str:
    """A name from `metadata.generateName`: the base, shortened if need be, and five characters."""
    room = GENERATED_NAME_MAX - GENERATED_SUFFIX_LENGTH
    if byte_length(base) > room:
        base = base.encode()[:room].decode(errors="replace")
    suffix = chooser.choices(GENERATED_SUFFIX_ALPHABET, k=GENERATED_SUFFIX_LENGTH)
    return base + "".join(suffix)


def mask_trailing_dash(base: str) -> str:
    """A `generateName` as a name rule should see it: the dash at its end will not stay there."""
    if byte_length(base) > 1 and base.endswith("-"):
        return base[:-2] + "a"
    return base
