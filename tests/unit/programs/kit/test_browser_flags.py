"""Flags about browsers: values that are refused at the start."""

from __future__ import annotations

import pytest

from pykcp.programs.kit.groups.serving import ServingOptions


@pytest.mark.parametrize(
    ("origin", "problem"),
    [
        (r"//example\.com(:|$)", ""),
        (r"^https://example\.com$", ""),
        ("", "empty value in --cors-allowed-origins"),
        ("^https://(example", "--cors-allowed-origins has an invalid regular expression: error parsing regexp: missing closing )"),
        ("example.com", "does not pin to start/end of host in the origin header"),
        ("^https", "does not pin to start/end of host in the origin header"),
    ],
)  # fmt: skip
def test_origins(origin: str, problem: str) -> None:
    found = " ".join(ServingOptions(cors_allowed_origins=(origin,)).problems())
    assert (problem in found) if problem else not found, found


@pytest.mark.parametrize(
    ("directive", "is_valid"),
    [("max-age=1", True), ("preload", True), ("includeSubDomains", True), ("max-age", False), ("x", False)],
)  # fmt: skip
def test_directives(directive: str, is_valid: bool) -> None:
    options = ServingOptions(strict_transport_security_directives=(directive,))
    assert (not list(options.problems())) == is_valid
