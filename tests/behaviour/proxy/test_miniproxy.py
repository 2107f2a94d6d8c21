"""`kcp start --miniproxy-mapping-file`: mappings in front of one shard."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import yaml

from pykcp.testing.https import HTTPSServer
from pykcp.testing.server import environment, server


def test_mapped_paths_are_forwarded_and_others_are_not(tmp_path: pathlib.Path) -> None:
    behind = HTTPSServer()
    (tmp_path / "ca.crt").write_text(behind.ca)
    mapping = {
        "path": "/services/shop/",
        "backend": behind.url,
        "backend_server_ca": str(tmp_path / "ca.crt"),
    }
    file = tmp_path / "mapping.yaml"
    file.write_text(yaml.safe_dump([mapping, {"path": "/gone/", "backend": "https://127.0.0.1:1"}]))
    behind.on("/services/shop/clusters/root/api", lambda _: {"from": "shop"})
    try:
        with server(f"--miniproxy-mapping-file={file}") as shard:
            client = shard.client()
            injected = {"X-Remote-User": "admin", "X-Custom": "1"}
            reply = client.get("/services/shop/clusters/root/api", headers=injected)
            assert reply.json == {"from": "shop"}
            received = behind.received[-1].headers
            assert "x-remote-user" not in received
            assert received["x-custom"] == "1"
            assert received["authorization"].startswith("Bearer ")
            assert client.get("/gone/x").status == 502
            assert client.get("/services/shop/%2e%2e/x").status == 400
            assert client.get("/services/shopping").status != 502
            assert client.get("/clusters/root/api/v1/namespaces").status == 200
    finally:
        behind.close()


def test_a_mapping_file_that_is_wrong(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text("- path: /x\n")
    words = ["start", f"--root-directory={tmp_path}", f"--miniproxy-mapping-file={file}"]
    done = subprocess.run(
        [sys.executable, "-m", "pykcp", *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1
    assert "--miniproxy-mapping-file" in done.stderr
    assert "backend is required" in done.stderr
