"""Command lines of servers in pages: the programs start with them, on files of a test's own installation."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from pykcp.testing.caches import cache_server
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.front_proxy import ProxyFiles
from pykcp.testing.issuer import TestIssuer
from pykcp.testing.kubeconfig import Access
from pykcp.testing.programs import serving
from pykcp.testing.server import ServerProcess, server

REPOSITORY = pathlib.Path(__file__).parents[2]
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def texts(page: str, language: str = "") -> list[str]:
    """The blocks of a page in a language."""
    page_text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    return [text for head, text in _BLOCK.findall(page_text) if head == language]


def flags(text: str, start: str) -> list[str]:
    """The flags of the command in a block that starts with some words."""
    command = text[text.index(start) :].replace("\\\n", " ").splitlines()[0]
    return [word for word in shlex.split(command, comments=True) if word.startswith("--")]


def placed(words: list[str], folder: pathlib.Path) -> list[str]:
    """The flags with the files of a folder, on a free port."""
    made = ["--bind-address=127.0.0.1"]
    for word in words:
        name, _, value = word.partition("=")
        if name == "--secure-port":
            value = "0"
        elif (folder / value).exists() or name == "--root-directory":
            value = str(folder / value)
        made.append(f"{name}={value}")
    return made


# --- operate/front-proxy.md

PROXY_PAGE = "operate/front-proxy.md"


@pytest.fixture
def files(tmp_path: pathlib.Path) -> ProxyFiles:
    """An installation's files, with the names that the page gives them."""
    files = ProxyFiles(tmp_path)
    for name, source in {
        "apiserver.crt": files.serving,
        "apiserver.key": files.serving,
        "requestheader.crt": files.proxy,
        "requestheader.key": files.proxy,
    }.items():
        shutil.copy(source, tmp_path / name)
    files.shards_kubeconfig()
    return files


@pytest.fixture
def shard(files: ProxyFiles) -> Iterator[ServerProcess]:
    process = ServerProcess(files.root / "root", files.shard_flags()).start()
    files.root_kubeconfig(process)
    try:
        yield process
    finally:
        process.stop()


def test_the_front_proxy(files: ProxyFiles, shard: ServerProcess) -> None:
    root = files.root
    entries = yaml.safe_load(texts(PROXY_PAGE, "yaml")[0])
    for entry in entries:
        entry["backend"] = f"https://127.0.0.1:{shard.port}"
        for name in ("backend_server_ca", "proxy_client_cert", "proxy_client_key"):
            entry[name] = str(root / entry[name])
    (root / "mapping.yaml").write_text(yaml.safe_dump(entries))
    start, merged = texts(PROXY_PAGE, "sh")
    words = placed(flags(start, "kcp-front-proxy"), root)
    with serving("pykcp.cli.kcp_front_proxy", root / "proxy.log", *words) as port:
        admin = str(files.user("admin", ["system:kcp:admin", "system:masters"]))
        access = Access("127.0.0.1", port, "", files.serving_ca.read_text(), "", (admin, admin))
        client = TestClient(access, "", [])
        eventually(lambda: client.get("/readyz").status == 200)
        assert client.get("/clusters/root/api/v1/namespaces/default").status == 200
        path = (
            shlex.split(merged)[-1]
            .replace("<cluster>", "root")
            .replace("<export>", "tenancy.kcp.io")
            .replace("example.io/v1/widgets", "tenancy.kcp.io/v1alpha1/workspaces")
        )
        assert client.get(path).json["kind"] == "WorkspaceList"
        client.close()


# --- start/install.md


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_the_kubeconfig_of_the_chart(files: ProxyFiles, shard: ServerProcess) -> None:
    """With a certificate that was issued for an administrator, as cert-manager issues it."""
    root = files.root
    admin = files.user("admin", ["system:kcp:admin"])
    for name, source in {
        "admin.crt": admin,
        "admin.key": admin,
        "ca.crt": files.serving_ca,
    }.items():
        shutil.copy(source, root / name)
    (block,) = (text for text in texts("start/install.md", "console") if "set-cluster" in text)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith("export ")) :]
    text = "\n".join(lines).replace("kcp.example.com:8443", f"127.0.0.1:{shard.port}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=root, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "universal" in done.stdout


# --- operate/cache.md


def test_the_cache_server(tmp_path: pathlib.Path) -> None:
    (block,) = texts("operate/cache.md", "sh")
    shown = {word.partition("=")[0] for word in flags(block, "cache-server")}
    with cache_server(tmp_path) as cache:
        pid = pathlib.Path(f"/proc/{cache.pid}/cmdline")
        used = {word.partition("=")[0] for word in pid.read_text().split("\0")}
        assert shown <= used
        words = flags(block, "kcp start")
        assert "--cache-kubeconfig=cache.kubeconfig" in words
        with server(*(word for word in placed(words, tmp_path) if "bind" not in word)) as process:
            name = "/apis/apis.kcp.io/v1alpha2/apiexports"
            exports = process.client(cluster="root").get(name).json["items"]
            expected = {one["metadata"]["name"] for one in exports}
            eventually(lambda: expected <= cache.names(name))


# --- operate/sign-in.md

SIGN_IN_PAGE = "operate/sign-in.md"


def sign_in_flags(name: str) -> list[str]:
    """All flags of the block that has a flag."""
    (found,) = (text for text in texts(SIGN_IN_PAGE) if name in text)
    words = shlex.split(found.replace("\\\n", " "), comments=True)
    return [word for word in words if word.startswith("--")]


def test_an_issuer_and_pages_of_other_origins(tmp_path: pathlib.Path) -> None:
    issuer = TestIssuer("RS256")
    ca = tmp_path / "ca.crt"
    ca.write_text(issuer.ca)
    words = [*sign_in_flags("--oidc-issuer-url"), *sign_in_flags("--cors-allowed-origins")]
    words = [word.replace("https://login.example.com", issuer.url) for word in words]
    token = issuer.token(
        aud="kcp", hd="example.com", email="a@example.com", email_verified=True, groups=["dev"]
    )
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        with server(*words, f"--oidc-ca-file={ca}") as process:
            client = process.client(cluster="root")
            sent = {"Authorization": f"Bearer {token}", "Origin": "https://console.example.com"}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            eventually(lambda: client.post(review, body, headers=sent).status == 201)
            reply = client.post(review, body, headers=sent)
            user = reply.json["status"]["userInfo"]
            assert (user["username"], user["groups"][0]) == ("a@example.com", "oidc:dev")
            assert reply.header("access-control-allow-origin") == "https://console.example.com"
    finally:
        issuer.close()


def test_webhooks(tmp_path: pathlib.Path) -> None:
    hook = {
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1/hook"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "current-context": "a",
    }
    (tmp_path / "hook.kubeconfig").write_text(yaml.safe_dump(hook))
    words = [
        *sign_in_flags("--authentication-token-webhook-config-file"),
        *sign_in_flags("--authorization-webhook-config-file"),
    ]
    words = [re.sub(r"=/etc/kcp/.*", f"={tmp_path}/hook.kubeconfig", word) for word in words]
    with server(*words) as process:
        assert process.client(cluster="root").get("/api/v1/namespaces/default").status == 200


# --- guides/console.md


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine")
def test_a_certificate_for_browsers(files: ProxyFiles) -> None:
    page = (REPOSITORY / "docs/guides/console.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ +(openssl .*)$", page, re.MULTILINE)
    user = files.user("admin", ["system:kcp:admin"])
    for name in ("client.crt", "client.key"):
        shutil.copy(user, files.root / name)
    words = [*shlex.split(command), "-passout", "pass:browser"]
    subprocess.run(words, cwd=files.root, check=True, timeout=60)
    assert (files.root / "client.p12").stat().st_size > 0


# --- reference/clients.md


def test_scripts_that_run_clients() -> None:
    (found,) = (text for text in texts("reference/clients.md") if "scripts/" in text)
    for line in found.splitlines():
        assert os.access(REPOSITORY / line.split()[0], os.X_OK), line
