"""admin.kubeconfig and the token that outlives a restart."""

from __future__ import annotations

import base64
import hashlib
import itertools
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pykcp.auth.files import CredentialError
from pykcp.auth.kubeconfig import (
    KubeconfigPaths,
    admin_tokens,
    to_yaml,
    write_admin_kubeconfig,
)

SERVER = "https://10.0.0.1:6443"


@pytest.fixture
def paths(tmp_path: Path) -> KubeconfigPaths:
    return KubeconfigPaths(tmp_path / "admin.kubeconfig", tmp_path / ".admin-token-store")


@pytest.fixture
def new_token() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"token-{next(numbers)}"


def start(paths: KubeconfigPaths, new_token: Callable[[], str], *, with_user: bool = False) -> None:
    tokens = admin_tokens(paths, new_token)
    write_admin_kubeconfig(paths, SERVER, b"CA", tokens, with_user=with_user)


def test_the_kubeconfig_has_kcps_contexts(
    paths: KubeconfigPaths, new_token: Callable[[], str]
) -> None:
    start(paths, new_token, with_user=True)
    config = yaml.safe_load(paths.kubeconfig.read_text())
    assert config["current-context"] == "root"
    assert {c["name"]: c["cluster"]["server"] for c in config["clusters"]} == {
        "base": SERVER,
        "root": f"{SERVER}/clusters/root",
        "system:admin": f"{SERVER}/clusters/system:admin",
    }
    contexts = {
        c["name"]: (c["context"]["cluster"], c["context"]["user"]) for c in config["contexts"]
    }
    assert contexts == {
        "root": ("root", "kcp-admin"),
        "base": ("base", "kcp-admin"),
        "system:admin": ("system:admin", "shard-admin"),
        "shard-base": ("base", "shard-admin"),
        "user": ("root", "user"),
    }
    tokens = {u["name"]: u["user"]["token"] for u in config["users"]}
    assert tokens["shard-admin"] == "token-1"
    assert tokens.keys() == {"shard-admin", "kcp-admin", "user"}
    assert len(set(tokens.values())) == 3
    data = config["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(data) == b"CA"


def test_files_are_private_and_hold_only_the_hash(
    paths: KubeconfigPaths, new_token: Callable[[], str]
) -> None:
    start(paths, new_token)
    assert paths.token_store.read_bytes() == hashlib.sha256(b"token-1").digest()
    for path in (paths.token_store, paths.kubeconfig):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_restart_keeps_the_tokens(paths: KubeconfigPaths, new_token: Callable[[], str]) -> None:
    first = admin_tokens(paths, new_token)
    write_admin_kubeconfig(paths, SERVER, b"CA", first)
    assert admin_tokens(paths, new_token) == first
    paths.token_store.unlink()
    assert admin_tokens(paths, new_token).kcp_admin != first.kcp_admin


@pytest.mark.parametrize("address", [SERVER, "https://elsewhere.example:7443"])
def test_a_restart_keeps_the_contexts_of_others(
    paths: KubeconfigPaths, new_token: Callable[[], str], address: str
) -> None:
    """As `kubectl ws` adds them; those of this server follow it to another address."""
    start(paths, new_token)
    config = yaml.safe_load(paths.kubeconfig.read_text())
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    mine = {"server": f"{SERVER}/clusters/root:a", "certificate-authority-data": authority}
    foreign = {"server": "https://foreign.example", "certificate-authority-data": authority}
    config["clusters"] += [
        {"name": "workspace.kcp.io/current", "cluster": mine},
        {"name": "foreign", "cluster": foreign},
    ]
    context = {"cluster": "workspace.kcp.io/current", "user": "kcp-admin"}
    config["contexts"] += [{"name": "workspace.kcp.io/current", "context": context}]
    config["users"] += [{"name": "me", "user": {"exec": {"command": "login", "args": ["a"]}}}]
    config["current-context"] = "workspace.kcp.io/current"
    paths.kubeconfig.write_text(yaml.safe_dump(config))
    write_admin_kubeconfig(paths, address, b"CA2", admin_tokens(paths, new_token))
    after = yaml.safe_load(paths.kubeconfig.read_text())
    assert after["current-context"] == "workspace.kcp.io/current"
    clusters = {entry["name"]: entry["cluster"] for entry in after["clusters"]}
    assert clusters["workspace.kcp.io/current"] == {
        "server": f"{address}/clusters/root:a",
        "certificate-authority-data": base64.b64encode(b"CA2").decode(),
    }
    assert clusters["foreign"] == foreign
    assert clusters["base"]["server"] == address
    assert context in [entry["context"] for entry in after["contexts"]]
    assert config["users"][-1] in after["users"]
    assert len(after["users"]) == 3


def test_additions_that_are_no_kubeconfig_are_dropped(
    paths: KubeconfigPaths, new_token: Callable[[], str]
) -> None:
    start(paths, new_token)
    text = paths.kubeconfig.read_text()
    tokens = admin_tokens(paths, new_token)
    for bad in ("name: x\n- {", "- name: x", "name: x\nclusters: 3\ncontexts: [1]\nusers: {a: b}"):
        paths.kubeconfig.write_text(bad)
        write_admin_kubeconfig(paths, SERVER, b"CA", tokens)
        assert yaml.safe_load(paths.kubeconfig.read_text()) == yaml.safe_load(text)


def test_a_foreign_kubeconfig_is_refused_naming_the_file_to_delete(
    paths: KubeconfigPaths, new_token: Callable[[], str]
) -> None:
    start(paths, new_token)
    paths.token_store.write_bytes(b"another hash")
    with pytest.raises(CredentialError) as caught:
        admin_tokens(paths, new_token)
    assert str(caught.value) == (
        f'admin token in file "{paths.kubeconfig}" is not valid anymore. '
        f'Remove file "{paths.token_store}" and restart kcp'
    )


@pytest.mark.parametrize("content", [None, "", "users: 3", "users: [{name: shard-admin}]", "- x"])
def test_a_kubeconfig_without_the_token_is_refused(
    paths: KubeconfigPaths, new_token: Callable[[], str], content: str | None
) -> None:
    start(paths, new_token)
    paths.kubeconfig.unlink()
    if content is not None:
        paths.kubeconfig.write_text(content)
    with pytest.raises(CredentialError, match="empty token for the shard-admin user"):
        admin_tokens(paths, new_token)


def test_broken_yaml_is_refused(paths: KubeconfigPaths, new_token: Callable[[], str]) -> None:
    start(paths, new_token)
    paths.kubeconfig.write_text("{")
    with pytest.raises(CredentialError, match="cannot parse"):
        admin_tokens(paths, new_token)


@pytest.mark.parametrize(
    "value",
    ["plain", "1e3", "0123", "true", "Null", "", "a: b", "with #hash", "ends:", "-x", "it's", "é"],
)
def test_yaml_strings_come_back_as_strings(value: str) -> None:
    text = to_yaml({"kind": value, "users": [{"name": value, "user": {"token": value}}]})
    assert yaml.safe_load(text) == {
        "kind": value,
        "users": [{"name": value, "user": {"token": value}}],
    }
