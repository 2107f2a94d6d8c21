"""Servers on one etcd with encryption at rest: they share the embedded cache, which is sealed."""

from __future__ import annotations

import base64
import json
import pathlib
import threading
import urllib.request

import pytest
import yaml

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import eventually
from pykcp.testing.processes import gauge, published_exports
from pykcp.testing.server import ServerProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
    ),
]

TEXT = b"hidden-from-disk"
"""In what is published; keys are not sealed."""
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"


def encryption(folder: pathlib.Path) -> str:
    key = {"name": "key1", "secret": base64.b64encode(bytes(32)).decode()}
    providers = [{"aesgcm": {"keys": [key]}}, {"identity": {}}]  # what is there can be read
    rule = {"resources": ["secrets"], "providers": providers}
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    config = folder / "encryption.yaml"
    config.write_text(yaml.safe_dump({**document, "resources": [rule]}))
    return f"--encryption-provider-config={config}"


def make_export(server: ServerProcess, name: str) -> None:
    body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "spec": {}}
    metadata = {"name": name, "annotations": {"note": TEXT.decode()}}
    made = server.client(cluster="root").post(EXPORTS, {**body, "metadata": metadata})
    assert made.status == 201, made


def values_below(etcd: EtcdProcess, prefix: bytes) -> list[bytes]:
    asked = {"key": prefix, "range_end": prefix[:-1] + bytes([prefix[-1] + 1])}
    body = {name: base64.b64encode(text).decode() for name, text in asked.items()}
    request = urllib.request.Request(f"{etcd.url}/v3/kv/range", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        found = json.load(answer).get("kvs", ())
    return [base64.b64decode(one.get("value", "")) for one in found]


def test_the_shared_cache_is_sealed_with_a_key_of_all_servers(tmp_path: pathlib.Path) -> None:
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    flags = [f"--etcd-servers={etcd.url}"]
    open_one = ServerProcess(tmp_path / "server0", flags).start()
    make_export(open_one, "published-before")
    eventually(lambda: "published-before" in published_exports(open_one))
    assert any(TEXT in value for value in values_below(etcd, b"/registry-cache"))
    assert open_one.stop() == 0
    flags.append(encryption(tmp_path))
    servers = [ServerProcess(tmp_path / f"server{number}", flags) for number in range(2)]
    starting = [threading.Thread(target=server.start) for server in servers]
    try:
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        make_export(servers[0], "published-after")
        both = {"published-before", "published-after"}
        for server in servers:
            eventually(lambda server=server: both <= published_exports(server))
        (leader,) = (one for one in servers if gauge(one, "pykcp_leader"))
        (other,) = (one for one in servers if one is not leader)
        leader.kill()
        eventually(lambda: gauge(other, "pykcp_leader") == 1, 15)
        assert both <= published_exports(other)
        gone = other.client(cluster="root").delete(f"{EXPORTS}/published-before")
        assert gone.status == 200, gone
        eventually(lambda: "published-before" not in published_exports(other))
        cached = values_below(etcd, b"/registry-cache")
        assert cached
        assert not any(TEXT in value for value in cached)
        files = [file.read_bytes() for file in tmp_path.glob("server*/etcd-cache*.db*")]
        assert files
        assert not any(TEXT in content for content in files)
    finally:
        for server in servers:
            server.stop()
        etcd.kill()
