"""`kcp import`: what a kcp has stored becomes an installation that its clients go on using.

What it has stored is made for the test, in kcp's form: see `stored.py`.
"""

from __future__ import annotations

import asyncio
import base64
import pathlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from tests.behaviour.importing.stored import HATS, SECRETS, StoredContent, stored_content

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.storage.testing import EtcdProcess, find_etcd, free_ports
from pykcp.testing.apis import BINDINGS, COWBOYS, EXPORTS, MAPS
from pykcp.testing.client import TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.programs import kcp
from pykcp.testing.server import ServerProcess, environment, server
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


PAGE = pathlib.Path(__file__).parents[3] / "docs" / "guides" / "coming-from-kcp.md"


class ImportPage:
    """Commands of the page, with directories and addresses of a test."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._text = PAGE.read_text(encoding="utf-8")
        (self.port,) = free_ports(1)

    def block(self, fence: str) -> str:
        (found,) = re.findall(rf"^```{fence}\n(.*?)^```$", self._text, re.MULTILINE | re.DOTALL)
        return self._placed(found)

    def steps(self) -> list[str]:
        """The commands of the numbered list."""
        found = re.findall(r"^       (kcp (?:.*\\\n)*.*)$", self._text, re.MULTILINE)
        return [self._placed(re.sub(r"\\\n *", "", command)) for command in found]

    def _placed(self, command: str) -> str:
        here = f"http://127.0.0.1:{self.port}"
        for shown, used in (
            ("https://127.0.0.1:2379", here),
            ("http://127.0.0.1:2379", here),
            ("/var/lib/pykcp/.kcp", "new"),
            ("/var/lib/kcp/.kcp", ".kcp"),
            ("/tmp/", ""),
        ):
            command = command.replace(shown, used)
        return command

    def run(self, command: str, **replaced: str) -> tuple[int, str]:
        """The exit code, and what it says."""
        for shown, used in replaced.items():
            command = command.replace(shown, used)
        done = subprocess.run(
            [sys.executable, "-m", "pykcp", *shlex.split(command)[1:]],
            cwd=self.folder, capture_output=True, text=True, env=environment(), check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def etcd(self) -> subprocess.Popen[bytes]:
        """An etcd on a copy of the embedded one's data."""
        copy, serve, _ = self.block("sh embedded").splitlines()
        subprocess.run(shlex.split(copy), cwd=self.folder, check=True)
        program, *words = shlex.split(serve)
        (peer,) = free_ports(1)
        words += ["--log-level=error", f"--listen-peer-urls=http://127.0.0.1:{peer}"]
        with (self.folder / "etcd.log").open("wb") as log:
            return subprocess.Popen(
                [find_etcd() or program, *words], cwd=self.folder, stdout=log, stderr=log
            )

    def shards(self, content: StoredContent) -> str:
        """The command for several shards, with what it reads."""
        url = f"http://127.0.0.1:{self.port}"
        root, alpha = content.split("root:consumer")
        root, beta = root.split("root:a:b")
        config = self.block("yaml alpha.yaml")
        for name, shard in {"root": root, "alpha": alpha, "beta": beta}.items():
            asyncio.run(shard.write_etcd(url, f"/shard/{name}"))
            shard.write_files(self.folder / name)
            own = re.sub(r"\[https://.*\]", f"[{url}]", config).replace("registry", f"shard/{name}")
            own = re.sub(r"(from-root-directory:) .*", rf"\1 {name}", own)
            (self.folder / f"{name}.yaml").write_text(own)
        command = self.block("sh shards").replace(
            "--from-root-directory=…", "--from-root-directory=root"
        )
        return command.replace("=…", f"={url} --from-etcd-prefix=/shard/root")


@needs_etcd
def test_the_page(
    content: StoredContent, etcd: EtcdProcess, old: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its commands, in an order in which each has what it needs."""
    page = ImportPage(tmp_path)
    etcd.kill()
    (tmp_path / "etcd" / "etcd0").rename(old / "etcd-server")
    old = old.rename(tmp_path / ".kcp")
    _write_certificates(tmp_path)  # which this etcd does not ask for
    store = page.etcd()
    try:
        look, take, start = page.steps()
        _sees_and_imports(page, look, take)
        assert start.split()[2:] == [
            "--root-directory=new",
            "--secure-port=6443",
            "--token-auth-file=new/imported-tokens.csv",
        ]
        with served(content, old, tmp_path / "new") as process:
            _imports_by_the_api(page, process)
        code, text = page.run(page.shards(content), new="of-shards")
        assert code == 0, text
    finally:
        store.kill()
        store.wait()


def _write_certificates(folder: pathlib.Path) -> None:
    authority = create_ca("etcd", time.time())
    pair = issue_client(authority, "client", [], time.time())
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "client.crt").write_bytes(pair.certificate)
    (folder / "client.key").write_bytes(pair.key)


def _imports_by_the_api(page: ImportPage, process: ServerProcess) -> None:
    """Any server that serves it will do."""
    kubeconfig = page.folder / ".kcp" / "admin.kubeconfig"
    text = re.sub(r"(https://127\.0\.0\.1):\d+", rf"\1:{process.port}", kubeconfig.read_text())
    kubeconfig.write_text(text)
    code, text = page.run(page.block("sh api"), new="by-the-api")
    assert code == 0, text


def _sees_and_imports(page: ImportPage, look: str, take: str) -> None:
    code, text = page.run(look)
    assert code == 0, text
    assert (
        "5 workspaces: root:a, root:a:b, root:consumer, root:typed, root:wildwest-provider" in text
    )
    assert "1 cowboys.wild.west" in text
    assert "nothing was changed" in text
    assert not (page.folder / "new").exists()
    (*_, same) = page.block("sh embedded").splitlines()
    assert take.replace("=…", f"=http://127.0.0.1:{page.port}") == same
    code, text = page.run(same)
    assert code == 0, text
    assert "fsck: consistent" in text
    code, text = page.run(same)
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
    with served(content, tmp_path / "root", root, *flags):
        pass


@contextmanager
def served(
    content: StoredContent, old: pathlib.Path, root: pathlib.Path, *flags: str
) -> Iterator[ServerProcess]:
    """A server of an imported root directory, which serves the users of the old one's kubeconfig."""
    tokens = f"--token-auth-file={root / 'imported-tokens.csv'}"
    process = ServerProcess(root, [tokens, *flags]).start()
    try:
        port, kubeconfig = process.client().access.port, old / "admin.kubeconfig"
        masters = TestClient(replace(read_access(kubeconfig, "system:admin"), port=port))
        people = TestClient(replace(read_access(kubeconfig, "root"), port=port), "root")
        with closing(masters), closing(people):
            check(content, masters, people)
        yield process
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
