"""Whether stored objects fit a schema that is narrower than the one they were written with."""

from __future__ import annotations

import orjson

from pykcp.clients.interface import Reader
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.multicluster.computing import Compute
from pykcp.multicluster.importing.jobs import MISFITS
from pykcp.multicluster.names import OWNED_BY
from pykcp.types import Object

_NAMED = 5
_PAGE = 100


async def misfits(
    client: Reader, cluster: str, kind: GroupVersionResource, schema: Object, compute: Compute
) -> tuple[int, list[str]]:
    """How many objects of a workspace a schema would reject or cut, and the first of them."""
    text = orjson.dumps(schema)
    count, names = 0, list[str]()
    async for page in client.pages(cluster, kind, size=_PAGE):
        # Parts of workloads are made of others, which are named.
        wholes = [obj for obj in page if OWNED_BY not in meta.labels(obj)]
        found: list[str] = await compute(MISFITS, text, orjson.dumps(wholes), tenant=cluster)
        count += len(found)
        names += found[: _NAMED - len(names)]
    return count, names


async def has_objects(client: Reader, cluster: str, kind: GroupVersionResource) -> bool:
    """Whether a workspace has objects of a kind."""
    async for page in client.pages(cluster, kind, size=1):
        if page:
            return True
    return False
