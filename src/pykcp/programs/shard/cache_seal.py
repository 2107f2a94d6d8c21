"""The key that seals the cache of a shard with encryption at rest.

It is kept in a Secret of `system:shard`, which is encrypted like all Secrets, so the mirror of a
cache server can be read after a restart, and an embedded cache in etcd by all servers of the shard.
If Secrets are not encrypted, the key ends with the process.
"""

from __future__ import annotations

import base64
import contextlib

from pykcp.clients.interface import Client
from pykcp.machinery.kcp.clusters import SYSTEM_SHARD
from pykcp.machinery.resources import NAMESPACES, SECRETS
from pykcp.machinery.status import AlreadyExists
from pykcp.registry.codec import decode
from pykcp.registry.early import create_early
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.storage.encryption import EncryptedStore
from pykcp.storage.interface import Query, Store
from pykcp.types import Object

_NAMESPACE, _NAME, _FIELD = "default", "cache-mirror-seal", "seal"
_TYPE = "Opaque"
_KEY = object_key(kind_prefix(SECRETS), SYSTEM_SHARD, _NAMESPACE, _NAME)


async def kept_seal(store: Store) -> bytes:
    """The key of an earlier process; b"" if there is none."""
    if not _is_encrypted(store):
        return b""
    page = await store.list(Query(_KEY, limit=1))
    if not page.values:
        return b""
    return base64.b64decode(decode(page.values[0])["data"][_FIELD])


async def shared_seal(store: Store, seal: bytes) -> bytes:
    """The key of all servers of a shard: `seal` for the first of them; b"" if there can be none.

    It is needed before anything is served, so the Secret is written to the store as it is.
    """
    if not _is_encrypted(store):
        return b""
    await store.barrier()
    found = await kept_seal(store)
    if not found:
        await create_early(store, SECRETS, SYSTEM_SHARD, _secret(seal), {"type": _TYPE})
        await store.barrier()  # another server may have been faster
        found = await kept_seal(store)
    return found


async def keep_seal(store: Store, client: Client, seal: bytes) -> None:
    """Keep the key for later processes."""
    if not _is_encrypted(store):
        return
    with contextlib.suppress(AlreadyExists):  # another server of this shard was faster
        await client.create(SYSTEM_SHARD, NAMESPACES, {"metadata": {"name": _NAMESPACE}})
    if await client.get(SYSTEM_SHARD, SECRETS, _NAME, _NAMESPACE) is None:
        with contextlib.suppress(AlreadyExists):
            await client.create(SYSTEM_SHARD, SECRETS, _secret(seal))


def _secret(seal: bytes) -> Object:
    return {
        "metadata": {"name": _NAME, "namespace": _NAMESPACE},
        "type": _TYPE,
        "data": {_FIELD: base64.b64encode(seal).decode()},
    }


def _is_encrypted(store: Store) -> bool:
    return isinstance(store, EncryptedStore) and store.seals(_KEY)
