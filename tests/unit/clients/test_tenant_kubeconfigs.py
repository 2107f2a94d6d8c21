"""Kubeconfigs that tenants wrote: no programs, no files of this server, no content in errors."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.kubeconfig import parse_endpoint
from pykcp.multicluster.clusters.connection import InvalidKubeconfig, parse_kubeconfig


def kubeconfig(user: dict[str, Any] | None = None, **cluster: Any) -> str:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "hidden"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.safe_dump(document)


def test_one_that_can_be_used() -> None:
    found = parse_endpoint(kubeconfig())
    assert (found.url, found.token) == ("https://127.0.0.1:1", "hidden")
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (kubeconfig({"exec": {"command": "sh"}}), "users cannot use exec here"),
        (kubeconfig({"auth-provider": {"name": "gcp"}}), "users cannot use auth-provider here"),
        (kubeconfig({"tokenFile": "/etc/shadow"}), "tokenFile cannot be used here"),
        (kubeconfig({"client-key": "/etc/key"}), "client-key cannot be used here"),
        (kubeconfig({"client-certificate": "a"}), "client-certificate cannot be used here"),
        (kubeconfig(**{"certificate-authority": "/etc/ca"}), "certificate-authority cannot be"),
        (kubeconfig(**{"certificate-authority-data": "%%hidden"}), "is not base64"),
        ("a: [hidden", "not YAML in line 1"),
        ("hidden", "not a kubeconfig"),
        ("", "not a kubeconfig"),
        ("a" * 300_000, "longer than"),
        ("{}", "current-context is not set"),
    ],
)
def test_what_is_rejected(text: str, message: str) -> None:
    with pytest.raises(CredentialError) as caught:
        parse_endpoint(text)
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (kubeconfig(server="http://127.0.0.1:1"), "http cannot be used here"),
        (kubeconfig(**{"insecure-skip-tls-verify": True}), "insecure-skip-tls-verify cannot"),
        (kubeconfig({"username": "a", "password": "hidden"}), "username and password cannot"),
        (kubeconfig(**{"proxy-url": "http://proxy"}), "proxy-url cannot be used here"),
    ],
)
async def test_what_is_unsafe_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidKubeconfig) as caught:
        await parse_kubeconfig(text)
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)
