"""Identities: the hash of a secret identifies an export over time."""

from __future__ import annotations

import base64
import binascii
import secrets

from pykcp.clients.interface import Client
from pykcp.machinery.kcp import hashes
from pykcp.machinery.resources import NAMESPACES, SECRETS
from pykcp.machinery.status import AlreadyExists, go_quote
from pykcp.types import Object

NAMESPACE = "kcp-system"
_KEY = "key"


class BadIdentity(Exception):
    """The identity is not what it should be; the message is for the condition."""


async def ensure_secret(client: Client, cluster: str, name: str) -> Object:
    """Make the secret of an identity, or take the one that is there; the reference to it."""
    if await client.get(cluster, SECRETS, name, NAMESPACE) is None:
        await _create_secret(client, cluster, name)
    return {"namespace": NAMESPACE, "name": name}


async def _create_secret(client: Client, cluster: str, name: str) -> None:
    if await client.get(cluster, NAMESPACES, NAMESPACE) is None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await _create(client, cluster, namespace)
    key = hashes.identity_key(secrets.token_bytes(32)).encode()
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "data": {_KEY: base64.b64encode(key).decode()},
    }
    await _create(client, cluster, secret)


async def _create(client: Client, cluster: str, obj: Object) -> None:
    kind = SECRETS if obj["kind"] == "Secret" else NAMESPACES
    try:
        await client.create(cluster, kind, obj)
    except AlreadyExists:
        return


async def identity_of(client: Client, cluster: str, reference: Object, known: str) -> str:
    """The hash of the secret that is referred to; `known` is what it was, "" at first."""
    name = reference.get("name") or ""
    secret = await client.get(cluster, SECRETS, name, reference.get("namespace") or "")
    if secret is None:
        raise BadIdentity(f"secrets {go_quote(name)} not found")
    try:
        key = base64.b64decode((secret.get("data") or {}).get(_KEY) or "")
    except binascii.Error:
        key = b""
    if not key:
        raise BadIdentity(f"secret is missing data.{_KEY}")
    found = hashes.identity_hash(key)
    if known and known != found:
        raise BadIdentity(
            f"hash mismatch: identity secret hash {go_quote(found)} "
            f"must match status.identityHash {go_quote(known)}"
        )
    return found
