"""`admin.kubeconfig` and the tokens in it.

As in kcp, the shard-admin token is kept across restarts, and only its hash is stored in
`.admin-token-store`; the tokens of kcp-admin and user are new at every start. A hash that does
not match the kubeconfig means that one of the two files was replaced: the start fails.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pykcp.auth.files import CredentialError, read, read_if_present, write_private

SHARD_ADMIN = "shard-admin"
KCP_ADMIN = "kcp-admin"
PLAIN_USER = "user"


@dataclass(frozen=True, slots=True)
class AdminTokens:
    """Bearer tokens of the users a server makes for its owner."""

    kcp_admin: str
    shard_admin: str
    user: str

    @property
    def shard_admin_hash(self) -> bytes:
        return token_hash(self.shard_admin)


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True)
class KubeconfigPaths:
    kubeconfig: Path
    token_store: Path


def admin_tokens(paths: KubeconfigPaths, new_token: Callable[[], str]) -> AdminTokens:
    """The tokens for this start: shard-admin's as before if there was a before."""
    stored = read_if_present(paths.token_store)
    shard_admin = new_token() if stored is None else _kept_token(paths, stored)
    return AdminTokens(kcp_admin=new_token(), shard_admin=shard_admin, user=new_token())


def _kept_token(paths: KubeconfigPaths, stored_hash: bytes) -> str:
    for token in _tokens_as_written(read_if_present(paths.kubeconfig) or b""):
        if hmac.compare_digest(token_hash(token), stored_hash):
            return token
    token = _token_of(paths.kubeconfig, SHARD_ADMIN) if paths.kubeconfig.exists() else ""
    if not token:
        raise CredentialError(
            f"cannot create the 'admin.kubeconfig' file with an empty token for the {SHARD_ADMIN} "
            f'user. Remove file "{paths.token_store}" and restart kcp'
        )
    if not hmac.compare_digest(token_hash(token), stored_hash):
        raise CredentialError(
            f'admin token in file "{paths.kubeconfig}" is not valid anymore. '
            f'Remove file "{paths.token_store}" and restart kcp'
        )
    return token


def _tokens_as_written(kubeconfig: bytes) -> list[str]:
    """The tokens of a file that is still as we wrote it: a parser of YAML takes long to load."""
    lead = b"    token: "
    lines = [line for line in kubeconfig.splitlines() if line.startswith(lead)]
    return [line[len(lead) :].decode(errors="replace") for line in lines]


def _token_of(kubeconfig: Path, user: str) -> str:
    import yaml

    try:
        config = yaml.safe_load(read(kubeconfig))
    except yaml.YAMLError as error:
        raise CredentialError(f"cannot parse {kubeconfig}: {error}") from error
    users = config.get("users") if isinstance(config, dict) else None
    for entry in users if isinstance(users, list) else ():
        if isinstance(entry, dict) and entry.get("name") == user:
            token = (entry.get("user") or {}).get("token")
            return token if isinstance(token, str) else ""
    return ""


def write_admin_kubeconfig(
    paths: KubeconfigPaths, server: str, ca: bytes, tokens: AdminTokens, *, with_user: bool = False
) -> None:
    """Write the kubeconfig, then the hash: after a crash in between both are created again."""
    config = admin_kubeconfig(server, ca, tokens, with_user=with_user)
    write_private(paths.kubeconfig, to_yaml(config).encode())
    write_private(paths.token_store, tokens.shard_admin_hash)


def admin_kubeconfig(
    server: str, ca: bytes, tokens: AdminTokens, *, with_user: bool = False
) -> dict[str, Any]:
    """Contexts root (current), base, system:admin, shard-base and, if asked for, user."""
    urls = {
        "base": server,
        "root": f"{server}/clusters/root",
        "system:admin": f"{server}/clusters/system:admin",
    }
    contexts = {
        "base": ("base", KCP_ADMIN),
        "root": ("root", KCP_ADMIN),
        "shard-base": ("base", SHARD_ADMIN),
        "system:admin": ("system:admin", SHARD_ADMIN),
    }
    users = {KCP_ADMIN: tokens.kcp_admin, SHARD_ADMIN: tokens.shard_admin}
    if with_user:
        contexts[PLAIN_USER] = ("root", PLAIN_USER)
        users[PLAIN_USER] = tokens.user
    return kubeconfig(urls, contexts, {name: {"token": token} for name, token in users.items()}, ca)


def kubeconfig(
    servers: dict[str, str],
    contexts: dict[str, tuple[str, str]],
    users: dict[str, dict[str, str]],
    ca: bytes,
    current: str = "root",
) -> dict[str, Any]:
    """A kubeconfig: servers by cluster name, (cluster, user) by context name."""
    authority = base64.b64encode(ca).decode()
    return {
        "apiVersion": "v1",
        "clusters": [
            {"cluster": {"certificate-authority-data": authority, "server": url}, "name": name}
            for name, url in sorted(servers.items())
        ],
        "contexts": [
            {"context": {"cluster": cluster, "user": user}, "name": name}
            for name, (cluster, user) in sorted(contexts.items())
        ],
        "current-context": current,
        "kind": "Config",
        "users": [{"name": name, "user": users[name]} for name in sorted(users)],
    }


def to_yaml(config: dict[str, Any]) -> str:
    """YAML as kubectl writes it: two levels of lists of small mappings, stable to the byte."""
    lines: list[str] = []
    for key, value in config.items():
        if isinstance(value, list):
            lines.append(f"{key}:")
            for entry in value:
                lines.extend(_entry_lines(entry))
        else:
            lines.append(f"{key}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _entry_lines(entry: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, value in entry.items():
        lead = "- " if not lines else "  "
        if isinstance(value, dict):
            lines.append(f"{lead}{key}:")
            lines.extend(f"    {name}: {_scalar(text)}" for name, text in value.items())
        else:
            lines.append(f"{lead}{key}: {_scalar(value)}")
    return lines


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+")


def _scalar(text: str) -> str:
    """Plain if YAML cannot mistake it for anything but a string, otherwise quoted."""
    is_word = (
        bool(text) and text[0].isalpha() and not text.endswith(":") and _PLAIN.issuperset(text)
    )
    if is_word and text.lower() not in {
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "null",
        "y",
        "n",
    }:
        return text
    return json.dumps(text)
