"""Kubeconfigs that tenants write: what is taken from them, and what is rejected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from pykcp.multicluster.clusters.connection import InvalidKubeconfig, parse_kubeconfig
from pykcp.types import Object


def kubeconfig(user: Object | None = None, **cluster: Any) -> str:
    server = {"server": "https://example.com", **cluster}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


def bomb(levels: int) -> str:
    """A token of ten to the power of `levels` letters."""
    lines = ["l0: &l0 aaaaaaaaaa"]
    for level in range(1, levels):
        items = ", ".join([f"*l{level - 1}"] * 10)
        lines.append(f"l{level}: &l{level} [{items}]")
    text = kubeconfig({"token": "TOKEN"}).replace("TOKEN", f"*l{levels - 1}")
    return "\n".join([*lines, text])


MERGED = kubeconfig().replace("token: secret", "<<: {token: secret}")
REJECTED = {
    "a bomb": (bomb(9), "aliases and merge keys cannot be used"),
    "a merge key": (MERGED, "aliases and merge keys cannot be used"),
    "a token that is no string": (kubeconfig({"token": ["a"]}), "token is not a string"),
    "a token that is a number": (kubeconfig({"token": 5}), "token is not a string"),
    "a server that is no string": (kubeconfig(server={"a": "b"}), "server is not a string"),
    "a server that is no URL": (kubeconfig(server="https://[x"), "server is not an http"),
    "a name that is no string": (
        kubeconfig(**{"tls-server-name": ["a"]}),
        "tls-server-name is not a string",
    ),
    "as another user": (kubeconfig({"token": "a", "as": "b"}), "users cannot use as here"),
    "as groups": (kubeconfig({"token": "a", "as-groups": ["b"]}), "cannot use as-groups here"),
    "as with extra": (
        kubeconfig({"token": "a", "as-user-extra": {"b": ["c"]}}),
        "cannot use as-user-extra here",
    ),
    "a plug-in": (kubeconfig({"exec": {"command": "sh"}}), "users cannot use exec here"),
    "a file": (kubeconfig({"tokenFile": "/etc/passwd"}), "tokenFile cannot be used here"),
    "not YAML": ("a: [", "not YAML"),
}


def parsed(text: str) -> Any:
    return asyncio.run(parse_kubeconfig(text))


@pytest.mark.parametrize(("text", "problem"), REJECTED.values(), ids=REJECTED)
def test_what_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(InvalidKubeconfig) as raised:
        parsed(text)
    assert problem in str(raised.value)
    assert len(str(raised.value)) < 300


def test_what_is_taken() -> None:
    found = parsed(kubeconfig({"token": "secret"}, **{"tls-server-name": "name"}))
    assert (found.url, found.token, found.server_name) == ("https://example.com", "secret", "name")


def test_long_names_are_cut_in_messages() -> None:
    document = yaml.safe_load(kubeconfig())
    document["contexts"] = [{"name": f"{n}{'x' * 500}", "context": {}} for n in range(50)]
    with pytest.raises(InvalidKubeconfig) as raised:
        parsed(yaml.safe_dump(document))
    assert 'context "c" does not exist' in str(raised.value)
    assert "and 45 more" in str(raised.value)
    assert len(str(raised.value)) < 700
