"""A KMS plugin to talk to."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.storage.encryption.testing import KmsPlugin


@pytest.fixture
def plugin(tmp_path: pathlib.Path) -> Iterator[KmsPlugin]:
    made = KmsPlugin(tmp_path / "kms.sock")
    yield made
    made.stop()
