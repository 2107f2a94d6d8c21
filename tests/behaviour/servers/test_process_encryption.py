"""Values that are encrypted at rest are read by all processes."""

from __future__ import annotations

import base64
import pathlib

import yaml

from pykcp.testing.processes import client_per_process, wait_for_processes
from pykcp.testing.server import ServerProcess

SECRETS = "/api/v1/namespaces/default/secrets"


def test_a_secret_is_sealed_on_disk_and_open_in_every_process(tmp_path: pathlib.Path) -> None:
    key = {"name": "key1", "secret": base64.b64encode(bytes(32)).decode()}
    rule = {"resources": ["secrets"], "providers": [{"aesgcm": {"keys": [key]}}]}
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    config = tmp_path / "encryption.yaml"
    config.write_text(yaml.safe_dump({**document, "resources": [rule]}))
    flags = (f"--encryption-provider-config={config}", "--serving-processes=2")
    shard = ServerProcess(tmp_path / ".kcp", flags).start()
    try:
        wait_for_processes(shard, 2)
        clients = client_per_process(shard, 2)
        for name, client in clients.items():
            body = {"metadata": {"name": name}, "stringData": {"word": "hidden-from-disk"}}
            assert client.post(SECRETS, body).status == 201
            for reader in clients.values():
                found = reader.get(f"{SECRETS}/{name}").json
                assert base64.b64decode(found["data"]["word"]) == b"hidden-from-disk"
                assert reader.get(SECRETS).status == 200
        for client in clients.values():
            client.close()
        encoded = base64.b64encode(b"hidden-from-disk")
        files = [file.read_bytes() for file in shard.root.glob("*.db*")]
        assert not any(encoded in content for content in files)
    finally:
        assert shard.stop() == 0
