"""Files of shards."""

from __future__ import annotations

import pathlib

import pytest

from pykcp.clients.credential_files import CredentialError
from pykcp.proxy.shards import load_shards


def test_what_routing_needs_is_read(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "shards.json"
    file.write_text('[{"metadata": {"name": "a", "uid": "1"}, "spec": {"baseURL": "https://a"}}]')
    assert load_shards(str(file)) == [{"metadata": {"name": "a"}, "spec": {"baseURL": "https://a"}}]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "[1]", '[{"metadata": {}}]', '["a"]', "3"])
def test_other_content_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "shards.json"
    file.write_text(text)
    with pytest.raises(CredentialError, match="is not a list of Shard objects"):
        load_shards(str(file))
