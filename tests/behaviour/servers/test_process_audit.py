"""One audit log for all processes."""

from __future__ import annotations

import json
import pathlib

import yaml

from pykcp.testing.client import eventually
from pykcp.testing.processes import client_per_process, wait_for_processes
from pykcp.testing.server import ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"


def test_requests_of_all_processes_are_recorded_once(tmp_path: pathlib.Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    rules = [{"level": "None", "nonResourceURLs": ["*"]}, {"level": "Metadata"}]
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    policy.write_text(yaml.safe_dump({**document, "omitStages": ["RequestReceived"]}))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--serving-processes=2")
    shard = ServerProcess(tmp_path / ".kcp", flags).start()
    try:
        wait_for_processes(shard, 2)
        clients = client_per_process(shard, 2)
        expected = []
        for rotation in range(2):
            for name, client in clients.items():
                body = {"metadata": {"name": f"{name}-{rotation}"}}
                for answer in (client.post(MAPS, body), client.get(f"{MAPS}/{name}-{rotation}")):
                    assert answer.status in (200, 201)
                    expected.append(answer.header("Audit-Id"))
            if rotation == 0:
                log.rename(tmp_path / "rotated.log")

        def recorded() -> list[str]:
            files = [tmp_path / "rotated.log", log]
            lines = "".join(file.read_text() for file in files if file.exists()).splitlines()
            ids = [json.loads(line)["auditID"] for line in lines]
            return [one for one in ids if one in expected]

        eventually(lambda: sorted(recorded()) == sorted(expected))
        for client in clients.values():
            client.close()
    finally:
        shard.stop()
    assert log.exists()
