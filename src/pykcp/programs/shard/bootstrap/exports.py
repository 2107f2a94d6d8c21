"""kcp's own APIs in `root`: their schemas, identities and exports.

The root shard serves its own APIs before any controller runs, so exports are identified here, as
their controller would.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Mapping

from pykcp.apis import kcp_exports
from pykcp.controllers.apis import identity_secrets
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.kcp.condition_marks import mark_true
from pykcp.machinery.meta import now_rfc3339
from pykcp.machinery.resources import API_EXPORTS, API_RESOURCE_SCHEMAS, SECRETS
from pykcp.programs.shard.bootstrap.steps import change, ensure, put
from pykcp.registry.local import LocalClient
from pykcp.types import Object

_ROOT = clusters.ROOT


async def schema(client: LocalClient, resource: str) -> None:
    """Schemas are immutable: one that is there need not even be written out."""
    name = kcp_exports.schema_name(resource)
    if await client.get(_ROOT, API_RESOURCE_SCHEMAS, name) is None:
        await ensure(client, _ROOT, API_RESOURCE_SCHEMAS, kcp_exports.resource_schema(resource))


async def exports(client: LocalClient, given: Mapping[str, str]) -> None:
    """All of root's exports; `given` are keys that are not to be random."""
    names = kcp_exports.EXPORTS
    await asyncio.gather(*(_identity(client, name, given.get(name)) for name in names))
    await asyncio.gather(*(_export(client, name) for name in names))


async def _identity_hash(client: LocalClient, export: str) -> str:
    """What an export of root is known by; "" before it has an identity."""
    found = await client.get(_ROOT, API_EXPORTS, export) or {}
    identity: str = (found.get("status") or {}).get("identityHash") or ""
    return identity


async def _identity(client: LocalClient, export: str, given: str | None) -> None:
    """A secret once; later starts need not open it, and so do not fail if they cannot."""
    if await _identity_hash(client, export):
        return
    key = given or hashes.identity_key(secrets.token_bytes(32))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": export, "namespace": identity_secrets.NAMESPACE},
        "data": {"key": base64.b64encode(key.encode()).decode()},
    }
    await ensure(client, _ROOT, SECRETS, secret)


async def _export(client: LocalClient, name: str) -> None:
    """The export, with the identity that its secret has: others are bound to it at once."""
    wanted = kcp_exports.export(name)
    reference = {"namespace": identity_secrets.NAMESPACE, "name": name}
    wanted["spec"]["identity"] = {"secretRef": reference}
    await put(client, _ROOT, API_EXPORTS, wanted)
    if await _identity_hash(client, name):
        return
    identity = await identity_secrets.identity_of(client, _ROOT, reference, "")
    now = now_rfc3339(time.time())

    def identify(live: Object) -> None:
        live.setdefault("status", {})["identityHash"] = identity
        mark_true(live, "IdentityValid", now)

    await change(client, _ROOT, API_EXPORTS, name, identify, "status")
