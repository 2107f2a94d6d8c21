"""Which export a binding has bound."""

from __future__ import annotations

import pytest

from pykcp.machinery.kcp.binding_source import BindingSource, source_of


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        (b'{"metadata":{}}', ("", "")),
        (b'{"spec":{"reference":{"export":{"path":"root:a","name":"x"}}}}', ("x", "")),
        (b'{"spec":{"reference":{}},"status":{"apiExportClusterName":"c"}}', ("", "c")),
        (
            b'{"spec":{"reference":{"export":{"name":"x"}}},"status":{"apiExportClusterName":"c"}}',
            ("x", "c"),
        ),
    ],
)
def test_source(binding: bytes, expected: tuple[str, str]) -> None:
    assert source_of(binding) == BindingSource(*expected)
