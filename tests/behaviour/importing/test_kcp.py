"""`kcp import`: what a kcp has stored becomes an installation that its clients go on using.

What it has stored is made for the test, in kcp's form: see `stored.py`.
"""

from __future__ import annotations

import asyncio
import base64
import pathlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from tests.behaviour.importing.stored import HATS, SECRETS, StoredContent, stored_content

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.apis import BINDINGS, COWBOYS, EXPORTS, MAPS
from pykcp.testing.client import TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.programs import kcp
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, make_workspace

needs_etcd = pytest.mark.skipif(find_etcd() is None, reason="needs etcd")


@pytest.fixture
def content(tmp_path: pathlib.Path) -> StoredContent:
    return stored_content(tmp_path / "source")


@pytest.fixture
def etcd(content: StoredContent, tmp_path: pathlib.Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path / "etcd")
    process.start()
    try:
        asyncio.run(content.write_etcd(process.url))
        yield process
    finally:
        process.kill()


@pytest.fixture
def old(content: StoredContent, tmp_path: pathlib.Path) -> pathlib.Path:
    """The root directory of that kcp."""
    root = tmp_path / "old"
    content.write_files(root)
    return root


@needs_etcd
def test_from_etcd(
    content: StoredContent, etcd: EtcdProcess, old: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "new"
    words = ("import", f"--from-etcd={etcd.url}", f"--root-directory={root}")
    code, text = kcp(*words, "--dry-run")
    assert code == 0, text
    assert (
        "5 workspaces: root:a, root:a:b, root:consumer, root:typed, root:wildwest-provider" in text
    )
    assert "1 cowboys.wild.west" in text
    assert "nothing was changed" in text
    assert not root.exists()

    code, text = kcp(*words, f"--from-root-directory={old}")
    assert code == 0, text
    assert "fsck: consistent" in text
    check_served(content, old, root)

    code, text = kcp(*words)
    assert code == 1
    assert "is not empty; import into a new one" in text


@pytest.mark.slow
@needs_etcd
def test_several_shards_become_one(content: StoredContent, tmp_path: pathlib.Path) -> None:
    """A binding and its export, and a workspace and its parent, were on different shards."""
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        shards = content.split("root:consumer", "root:a:b")
        for name, shard in zip(("root", "alpha"), shards, strict=True):
            asyncio.run(shard.write_etcd(etcd.url, f"/shard/{name}"))
            shard.write_files(tmp_path / name)
        root = tmp_path / "new"
        words = (
            "import", f"--from-etcd={etcd.url}", "--from-etcd-prefix=/shard/root",
            f"--from-root-directory={tmp_path / 'root'}", f"--root-directory={root}",
        )  # fmt: skip
        code, text = kcp(*words)
        assert code == 1
        assert "the logical clusters of 2 workspaces are on other shards" in text
        alpha = tmp_path / "alpha.yaml"
        alpha.write_text(
            f"from-etcd: [{etcd.url}]\nfrom-etcd-prefix: /shard/alpha\n"
            f"from-root-directory: {tmp_path / 'alpha'}\n"
        )
        code, text = kcp(*words, f"--from-shards={alpha}")
        assert code == 0, text
        assert "fsck: consistent" in text
        code, text = kcp(*words, f"--from-shards={alpha},{alpha}", "--dry-run")
        assert code == 1
        assert "are on two shards" in text
        sealed = {"/registry/core/secrets/root/default/sealed": b"k8s:enc:kms:v2:plugin:x"}
        asyncio.run(StoredContent(sealed, {}).write_etcd(etcd.url, "/shard/root"))
        other = f"--root-directory={tmp_path / 'other'}"
        code, text = kcp(*words[:-1], other, f"--from-shards={alpha}")
        assert code == 1
        assert "left out: 1 objects that cannot be read" in text
        assert "/shard/root/core/secrets/root/default/sealed cannot be read" in text
    finally:
        etcd.kill()
    keys = (root / "sa.key", root / "imported-service-accounts.pem")
    flags = [f"--service-account-key-file={path}" for path in keys]
    check_served(content, tmp_path / "root", root, *flags)


def check_served(
    content: StoredContent, old: pathlib.Path, root: pathlib.Path, *flags: str
) -> None:
    """A server of an imported root directory serves the users of the old one's kubeconfig."""
    tokens = f"--token-auth-file={root / 'imported-tokens.csv'}"
    process = ServerProcess(root, [tokens, *flags]).start()
    try:
        port, kubeconfig = process.client().access.port, old / "admin.kubeconfig"
        masters = TestClient(replace(read_access(kubeconfig, "system:admin"), port=port))
        people = TestClient(replace(read_access(kubeconfig, "root"), port=port), "root")
        with closing(masters), closing(people):
            check(content, masters, people)
    finally:
        process.stop()


def check(content: StoredContent, masters: TestClient, people: TestClient) -> None:
    """Clients with its own kubeconfig, of which only the address has changed, find everything."""
    found = {item["metadata"]["name"]: item for item in people.get(WORKSPACES).json["items"]}
    assert sorted(found) == ["a", "consumer", "typed", "wildwest-provider"]
    for key in content.etcd:
        if "/logicalclusters/customresources/" in key and "system:" not in key:
            _same_cluster(content, masters, key)
    team = people.in_cluster("root:a:b")
    assert team.get(f"{MAPS}/settings").json["data"] == {"k": "v", "u": "ä"}
    hat = team.get(f"{HATS}/h").json
    assert hat["size"] == 5
    consumer = people.in_cluster("root:consumer")
    cowboys = consumer.get(COWBOYS).json["items"]
    assert [item["metadata"]["name"] for item in cowboys] == ["john-wayne"]
    (key,) = [key for key in content.etcd if "wild.west/cowboys" in key]
    assert cowboys[0]["metadata"]["uid"] == content.load(key)["metadata"]["uid"]
    identity = key.split("/")[4]
    provider = people.in_cluster("root:wildwest-provider")
    assert provider.get(f"{EXPORTS}/cowboys").json["status"]["identityHash"] == identity
    assert consumer.get(f"{BINDINGS}/cowboys").json["status"]["phase"] == "Bound"
    # the token of a service account
    token = base64.b64decode(team.get(f"{SECRETS}/robot-token").json["data"]["token"]).decode()
    robot = team.with_token(token)
    assert robot.get(f"{MAPS}/settings").status == 200
    assert robot.get(f"{SECRETS}/s").status == 403
    # and it goes on: new workspaces, also of the type that was imported
    make_workspace(people, "later", type={"name": "special", "path": "root"})


def _same_cluster(content: StoredContent, masters: TestClient, key: str) -> None:
    before, name = content.load(key), key.split("/")[5]
    after = masters.in_cluster(name).get(LOGICAL_CLUSTER).json
    assert after["status"]["phase"] == "Ready"
    if name != "root":
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        path = "kcp.io/path"
        assert after["metadata"]["annotations"][path] == before["metadata"]["annotations"][path]


@pytest.mark.slow
def test_from_a_running_server(tmp_path: pathlib.Path) -> None:
    """By the API; any server that serves it will do."""
    with server() as source:
        client = source.client(cluster="root")
        make_workspace(client, "team")
        team = client.in_cluster("root:team")
        made = team.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}}).json
        root = tmp_path / "new"
        code, text = kcp(
            "import",
            f"--from-kubeconfig={source.kubeconfig}",
            "--from-context=shard-base",
            f"--from-root-directory={source.root}",
            f"--root-directory={root}",
        )
    assert code == 0, text
    process = ServerProcess(root).start()
    try:
        found = process.client(cluster="root:team").get(f"{MAPS}/m").json
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
    finally:
        process.stop()


def test_bad_input(tmp_path: pathlib.Path) -> None:
    root = f"--root-directory={tmp_path / 'new'}"
    shard, wrong = tmp_path / "shard.yaml", tmp_path / "wrong.yaml"
    shard.write_text("from-context: x\n")
    wrong.write_text("dry-run: true\n")
    for words, text in (
        (["--from-context=x"], "one of --from-etcd and --from-kubeconfig must be given"),
        (["--from-etcd=127.0.0.1:1", "--from-kubeconfig=x"], "must be given"),
        (["--from-kubeconfig=/nonexistent"], "/nonexistent"),
        (["--from-etcd=127.0.0.1:1", "--from-root-directory=/tmp"], "has no admin.kubeconfig"),
        (["--from-etcd=127.0.0.1:1", "--from-shards=/nonexistent"], "--from-shards: /nonexistent"),
        (["--from-etcd=127.0.0.1:1", f"--from-shards={shard}"], f"{shard}: one of --from-etcd"),
        (["--from-etcd=127.0.0.1:1", f"--from-shards={wrong}"], f"{wrong}: dry-run: there is no"),
    ):
        code, found = kcp("import", root, *words)
        assert code == 1, words
        assert text in found
        assert "Traceback" not in found
