"""What a shard holds from the start: the same at every start, and what batteries add."""

from __future__ import annotations

import base64
import pathlib

import pytest

from pykcp.machinery.kcp.hashes import identity_hash
from pykcp.testing.client import eventually
from pykcp.testing.controllers import has_nothing_to_do
from pykcp.testing.server import server

EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"


def test_a_second_start_writes_nothing(tmp_path: pathlib.Path) -> None:
    with server(directory=tmp_path) as shard:

        def settled() -> str:
            eventually(lambda: has_nothing_to_do(shard.client()))
            types = shard.client(cluster="root").get(TYPES).json
            return str(types["metadata"]["resourceVersion"])

        first = settled()
        shard.stop()
        shard.start()
        assert settled() == first


def test_types_without_their_battery(tmp_path: pathlib.Path) -> None:
    with server("--batteries-included=admin", directory=tmp_path) as shard:
        found = {
            t["metadata"]["name"]: t for t in shard.client(cluster="root").get(TYPES).json["items"]
        }
        assert set(found) == {"home", "root", "universal"}
        assert found["root"]["spec"]["defaultChildWorkspaceType"]["name"] == "universal"


def test_identities_of_root_can_be_given(tmp_path: pathlib.Path) -> None:
    keys = tmp_path / "identities.yaml"
    keys.write_text("identities:\n- export: tenancy.kcp.io\n  identity: a-known-key\n")
    with server(f"--root-identities-file={keys}", directory=tmp_path) as shard:
        root = shard.client(cluster="root")
        found = root.get(f"{EXPORTS}/tenancy.kcp.io").json
        assert found["status"]["identityHash"] == identity_hash("a-known-key")
        path = f"/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces:{identity_hash('a-known-key')}"
        listed = shard.client().get(path)
        assert listed.status == 200, listed


def test_an_account_may_read_the_metrics(tmp_path: pathlib.Path) -> None:
    with server("--batteries-included=+metrics-viewer", directory=tmp_path) as shard:
        root = shard.client(cluster="root")

        def token() -> str | None:
            secret = root.get("/api/v1/namespaces/default/secrets/metrics").json
            found = (secret.get("data") or {}).get("token")
            return base64.b64decode(found).decode() if found else None

        viewer = shard.client().with_token(eventually(token))
        assert viewer.get("/metrics").status == 200
        assert viewer.get("/clusters/root/api/v1/secrets").status == 403


@pytest.mark.parametrize("check", ["kcp-bootstrap-policy", "kcp-start-controllers"])
def test_steps_of_the_start_are_checks(tmp_path: pathlib.Path, check: str) -> None:
    with server(directory=tmp_path) as shard:
        assert shard.client().get(f"/readyz/poststarthook/{check}").status == 200


@pytest.mark.parametrize("text", ["nonsense", "identities: 5", "identities:\n- {}\n", "a: [", ""])
def test_bad_identities_end_the_start_with_a_word(tmp_path: pathlib.Path, text: str) -> None:
    keys = tmp_path / "identities.yaml"
    keys.write_text(text)
    with (
        pytest.raises(RuntimeError, match="--root-identities-file"),
        server(f"--root-identities-file={keys}", directory=tmp_path) as shard,
    ):
        assert "Traceback" not in shard.log()
