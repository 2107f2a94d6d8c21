"""`admin.kubeconfig` and the tokens in it.

As in kcp, the shard-admin token is kept across restarts, and only its hash is stored in
`.admin-token-store`. The tokens of kcp-admin and user are derived from it, so that they stay valid
too. A hash that does not match the kubeconfig means that one of the two files was replaced: the
start fails. Contexts that others added to the file, for example `kubectl ws`, are kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
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
    """The tokens for this start: as before if there was a before."""
    stored = read_if_present(paths.token_store)
    shard_admin = new_token() if stored is None else _kept_token(paths, stored)
    return AdminTokens(
        kcp_admin=derived_token(shard_admin, KCP_ADMIN),
        shard_admin=shard_admin,
        user=derived_token(shard_admin, PLAIN_USER),
    )


def derived_token(secret: str, name: str) -> str:
    """A token that only those who know the secret can compute; it says nothing about the secret."""
    digest = hmac.new(secret.encode(), name.encode(), hashlib.sha256).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


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
    return [line[len(lead) :].decode(errors="replace").strip('"') for line in lines]


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
    text = to_yaml(config)
    before = read_if_present(paths.kubeconfig)
    if before is not None and _has_additions(before.decode(errors="replace"), text):
        text = _merged(before, config)
    write_private(paths.kubeconfig, text.encode())
    write_private(paths.token_store, tokens.shard_admin_hash)


def _has_additions(before: str, ours: str) -> bool:
    """Whether a file names anything that we do not write. It is not parsed: that takes long."""
    return not _names(before) <= _names(ours)


def _names(text: str) -> set[str]:
    words = (line.lstrip("- ").partition(": ") for line in text.splitlines())
    return {f"{key} {value}" for key, _, value in words if key in ("name", "current-context")}


def _merged(before: bytes, config: dict[str, Any]) -> str:
    """Our kubeconfig with what others added to the one before, moved to our present address."""
    import yaml

    try:
        old = yaml.safe_load(before)
    except yaml.YAMLError:
        old = None
    if not isinstance(old, dict):
        return to_yaml(config)
    moved = {
        _base(old).get(key): _base(config).get(key)
        for key in ("server", "certificate-authority-data")
    }
    merged = dict(config)
    for section in ("clusters", "contexts", "users"):
        names = {entry["name"] for entry in config[section]}
        added = old.get(section)
        merged[section] = config[section] + [
            _moved(entry, moved)
            for entry in (added if isinstance(added, list) else ())
            if isinstance(entry, dict) and entry.get("name") not in names
        ]
    if any(entry.get("name") == old.get("current-context") for entry in merged["contexts"]):
        merged["current-context"] = old["current-context"]
    return yaml.safe_dump(merged, sort_keys=False)


def _base(config: dict[str, Any]) -> dict[str, Any]:
    """The cluster "base" of a kubeconfig."""
    clusters = config.get("clusters")
    for entry in clusters if isinstance(clusters, list) else ():
        if isinstance(entry, dict) and entry.get("name") == "base":
            found = entry.get("cluster")
            return found if isinstance(found, dict) else {}
    return {}


def _moved(entry: dict[str, Any], moved: dict[Any, Any]) -> dict[str, Any]:
    """An added cluster that is this server, with its present address and CA."""
    cluster = entry.get("cluster")
    if not isinstance(cluster, dict):
        return entry
    server = str(cluster.get("server"))
    root, clusters, path = server.partition("/clusters/")
    if root not in moved:
        return entry
    authority = cluster.get("certificate-authority-data")
    changed = {"server": moved[root] + clusters + path}
    if authority in moved:
        changed["certificate-authority-data"] = moved[authority]
    return {**entry, "cluster": {**cluster, **changed}}


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
