"""Name rules and their messages."""

import random

import pytest

from pykcp.machinery import names

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize("value", ["a", "0", "a-b", "a.b", "a--b.c", "a" * 253, "1.2"])
def test_subdomains(value: str) -> None:
    assert names.dns1123_subdomain(value) == []


@pytest.mark.parametrize("value", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a\n", "é", " a"])
def test_not_subdomains(value: str) -> None:
    assert names.dns1123_subdomain(value) == [SUBDOMAIN]


def test_lengths() -> None:
    assert names.dns1123_subdomain("a" * 254) == ["must be no more than 253 characters"]
    assert names.dns1123_label("a" * 64) == ["must be no more than 63 characters"]
    assert names.label_value("a" * 64) == ["must be no more than 63 bytes"]
    assert names.qualified_name("a" * 64) == ["name part must be no more than 63 bytes"]
    assert names.qualified_name("a" * 254 + "/b") == ["prefix part must be no more than 253 bytes"]
    assert names.dns1123_label("é" * 32) == ["must be no more than 63 characters", LABEL]


def test_labels_of_both_rfcs() -> None:
    assert names.dns1123_label("a-1") == []
    assert names.dns1123_label("a.b") == ["must not contain dots"]
    assert names.dns1123_label("A") == [LABEL]
    assert names.dns1035_label("a1") == []
    assert len(names.dns1035_label("1a")) == 1


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("a", []),
        ("A_b.c-D", []),
        ("example.com/A", []),
        ("", ["name part must be non-empty", f"name part {KEY}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", f"name part {KEY}"]),
        ("A.com/x", [f"prefix part {SUBDOMAIN}"]),
        ("-a", [f"name part {KEY}"]),
        (
            "a/b/c",
            [
                (
                    f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' "
                    "(e.g. 'example.com/MyName')"
                )
            ],
        ),
        ("a.b.c.d.e.f.g/x", []),
    ],
)
def test_qualified_names(value: str, messages: list[str]) -> None:
    assert names.qualified_name(value) == messages


def test_config_keys() -> None:
    assert names.config_key("A_b.c-d") == []
    assert names.config_key(".a") == []
    assert names.config_key("..a") == ["must not start with '..'"]
    assert names.config_key("..") == ["must not be '..'"]
    assert names.config_key(".") == ["must not be '.'"]
    assert names.config_key("a b") == [
        (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
            "'[-._a-zA-Z0-9]+')"
        )
    ]


def test_path_segments() -> None:
    assert names.path_segment_name("system:a b") == []
    assert names.path_segment_name("..") == ["may not be '..'"]
    assert names.path_segment_name("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_generated_names() -> None:
    chooser = random.Random(7)
    name = names.generate_name("web-", chooser)
    assert name.startswith("web-")
    assert len(name) == 9
    assert set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert len(names.generate_name("x" * 80, chooser)) == 63
    assert names.mask_trailing_dash("web-") == "wea"
    assert names.mask_trailing_dash("-") == "-"
